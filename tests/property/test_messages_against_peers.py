"""kio and kafka-python, which owe us nothing, read what we write, and we read what they write back."""

import importlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.messages import REQUESTS, RESPONSES

Strategy = Callable[..., st.SearchStrategy[Any]]
Atoms = dict[str, st.SearchStrategy[Any]]

MILLISECONDS = st.integers(0, 1 << 40)
KIO_DOMAIN: Atoms = {
    # kio gives these fields Python types that hold less than the wire can: enums, datetimes, timedeltas.
    **dict.fromkeys(("error_code", "partition_error_code", "topic_config_error_code"), st.sampled_from([-1, 0, 3, 87])),
    "int64": MILLISECONDS,
    "float64": st.floats(allow_nan=False, allow_infinity=False),
}


def _kio_entities() -> Iterator[Any]:
    index = pytest.importorskip("kio.schema.index")
    constants = importlib.import_module("kio.static.constants")
    kinds = {
        "request": (constants.EntityType.request, REQUESTS),
        "response": (constants.EntityType.response, RESPONSES),
    }
    for api_key, name in sorted(index.api_key_map.items()):
        for version, paths in sorted(index.schema_name_map[name].items()):
            for label, (kind, classes) in kinds.items():
                ours = classes.get(api_key)
                if ours is not None and ours.MIN_VERSION <= version <= ours.MAX_VERSION and kind in paths:
                    yield pytest.param(ours, version, paths[kind], id=f"{name}-{label}-v{version}")


@pytest.mark.parametrize(("message_type", "version", "path"), list(_kio_entities()))
def test_kio_reads_and_rewrites_our_bytes(
    message_type: Any, version: int, path: str, messages: Strategy, atoms: Atoms
) -> None:
    serial = importlib.import_module("kio.serial")
    module, _, name = path.partition(":")
    entity_type = getattr(importlib.import_module(module), name)
    read, write = serial.entity_reader(entity_type), serial.entity_writer(entity_type)

    @given(messages(message_type, version, atoms | KIO_DOMAIN))
    @settings(max_examples=5)
    def check(message: Any) -> None:
        data = encode_bytes(message, version)
        entity, size = read(data, 0)
        assert size == len(data)
        rewritten = BytesIO()
        write(rewritten, entity)
        assert decode(message_type, version, rewritten.getvalue()) == message

    check()


KAFKA_PYTHON_MODULES = ("admin", "consumer", "metadata", "producer", "sasl")


def _kafka_python_messages() -> Iterator[Any]:
    pytest.importorskip("kafka.protocol")
    by_name = {ours.__name__: ours for classes in (REQUESTS, RESPONSES) for ours in classes.values()}
    seen = set()
    for module_name in KAFKA_PYTHON_MODULES:
        for name, theirs in sorted(vars(importlib.import_module(f"kafka.protocol.{module_name}")).items()):
            ours = by_name.get(name)
            if ours is None or not hasattr(theirs, "max_version") or name in seen:
                continue
            seen.add(name)
            for version in range(ours.MIN_VERSION, min(ours.MAX_VERSION, theirs.max_version) + 1):
                yield pytest.param(ours, theirs, version, id=f"{name}-v{version}")


@pytest.mark.parametrize(("message_type", "theirs", "version"), list(_kafka_python_messages()))
def test_kafka_python_reads_and_rewrites_our_bytes(
    message_type: Any, theirs: Any, version: int, messages: Strategy, atoms: Atoms
) -> None:
    # An ApiVersions response with an error is v0 to kafka-python, whatever was asked for (KIP-511).
    domain = {"error_code": st.just(0)} if message_type is RESPONSES[ApiKey.API_VERSIONS] else {}

    @given(messages(message_type, version, atoms | domain))
    @settings(max_examples=5)
    def check(message: Any) -> None:
        entity = theirs.decode(encode_bytes(message, version), version=version)
        entity._header = None  # a decoded body lacks what its own encode() looks at
        assert decode(message_type, version, bytes(entity.encode())) == message

    check()
