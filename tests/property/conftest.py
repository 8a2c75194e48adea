"""Hypothesis strategies for messages, derived from the declarations themselves."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from protocol.message import FieldSpec, field_specs
from protocol.primitives import ArrayType, WireType

settings.register_profile("odradek", deadline=None, print_blob=True)
settings.load_profile("odradek")

TEXT = st.one_of(st.text(max_size=6), st.text(max_size=6), st.just("é" * 80))
INTS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
ATOMS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": TEXT,
    "bytes": st.binary(max_size=8),
    "records": st.one_of(st.binary(max_size=8), st.binary(min_size=130, max_size=140)),
    **{name: st.integers(low, high) for name, (low, high) in INTS.items()},
}
Atoms = dict[str, st.SearchStrategy[Any]]
Strategy = Callable[..., st.SearchStrategy[Any]]


def _values(codec: Any, version: int, atoms: Atoms) -> st.SearchStrategy[Any]:
    if isinstance(codec, WireType):
        return atoms[codec.name]
    if isinstance(codec, ArrayType):
        element = _values(codec.element, version, atoms)
        if isinstance(codec.element, WireType):
            return st.one_of(st.lists(element, max_size=3), st.builds(lambda item: [item] * 128, element))
        return st.lists(element, max_size=2)
    return _messages(codec, version, atoms)


def _field(name: str, spec: FieldSpec, version: int, atoms: Atoms) -> st.SearchStrategy[Any]:
    values = atoms[name] if name in atoms else _values(spec.codec, version, atoms)
    if version >= spec.nullable_since:
        values = st.one_of(st.none(), values)
    return values if spec.tag is None else st.one_of(st.builds(spec.make_default), values)


def _messages(message_type: Any, version: int, atoms: Atoms = ATOMS) -> st.SearchStrategy[Any]:
    specs = field_specs(message_type).items()
    return st.builds(
        message_type, **{name: _field(name, spec, version, atoms) for name, spec in specs if spec.is_in(version)}
    )


@pytest.fixture(scope="session")
def messages() -> Strategy:
    """Give `messages(message_type, version, atoms)`: instances that one version can express."""
    return _messages


@pytest.fixture(scope="session")
def atoms() -> Atoms:
    """Give the strategies of the wire types by name; a field's name may override its type."""
    return ATOMS
