"""Every message in every version: the compiled twin, construct and a round trip agree; broken bytes only ever raise."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import protocol.stored
from protocol.codec import decode, encode_bytes
from protocol.errors import ProtocolError
from protocol.interpreted import build_interpreted, parse_interpreted
from protocol.messages import REQUESTS, RESPONSES

Strategy = Callable[..., st.SearchStrategy[Any]]


def _stored() -> Iterator[Any]:
    for entry in iter_modules(protocol.stored.__path__):
        module = import_module(f"protocol.stored.{entry.name}")
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "MIN_VERSION"):
                yield value


# So often a message is cut: a short one at every byte, a long one, which has one element many times, here and there.
CUTS = 500
ALL = [*REQUESTS.values(), *RESPONSES.values(), *_stored()]


def _name(message_type: type) -> str:
    return message_type.__name__


def _versions(message_type: Any) -> range:
    return range(message_type.MIN_VERSION, message_type.MAX_VERSION + 1)


def _outcome(parse: Callable[..., Any], message_type: type, version: int, data: bytes) -> Any:
    """Return what a decoder makes of bytes: a message, or the fact that they are malformed."""
    try:
        return parse(message_type, version, data)
    except ProtocolError:
        return ProtocolError


@pytest.mark.parametrize("message_type", ALL, ids=_name)
def test_both_twins_write_the_same_bytes_and_read_them_back(message_type: Any, messages: Strategy) -> None:
    def check(version: int) -> None:
        @given(messages(message_type, version))
        @settings(max_examples=6)
        def check_version(message: Any) -> None:
            data = encode_bytes(message, version)
            assert data == build_interpreted(message, version)
            assert decode(message_type, version, data) == message
            assert parse_interpreted(message_type, version, data) == message

        check_version()

    for version in _versions(message_type):
        check(version)


@pytest.mark.parametrize("message_type", ALL, ids=_name)
def test_a_message_cut_anywhere_is_malformed(message_type: Any, messages: Strategy) -> None:
    @given(st.data())
    @settings(max_examples=2)
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(_versions(message_type)))
        whole = encode_bytes(data.draw(messages(message_type, version)), version)
        for length in range(len(whole) - 1, -1, -(1 + len(whole) // CUTS)):
            assert _outcome(decode, message_type, version, whole[:length]) is ProtocolError

    check()


@pytest.mark.parametrize("message_type", ALL, ids=_name)
def test_damaged_bytes_mean_the_same_to_both_twins(message_type: Any, messages: Strategy) -> None:
    @given(st.data())
    @settings(max_examples=8)
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(_versions(message_type)))
        damaged = bytearray(encode_bytes(data.draw(messages(message_type, version)), version) or b"\0")
        for _ in range(data.draw(st.integers(1, 3))):
            position = data.draw(st.integers(0, len(damaged) - 1))
            damaged[position] = data.draw(st.sampled_from([0, 1, 127, 128, 254, 255]))
        expected = _outcome(parse_interpreted, message_type, version, bytes(damaged))
        assert _outcome(decode, message_type, version, bytes(damaged)) == expected

    check()


@pytest.mark.parametrize("message_type", ALL, ids=_name)
def test_arbitrary_bytes_never_do_worse_than_a_protocol_error(message_type: Any) -> None:
    @given(st.sampled_from(_versions(message_type)), st.binary(max_size=64))
    @settings(max_examples=8)
    def check(version: int, data: bytes) -> None:
        assert _outcome(decode, message_type, version, data) == _outcome(parse_interpreted, message_type, version, data)

    check()
