"""Declare a message once: the class is its type, its schema and its documentation.

    @message
    class ListGroupsRequest:
        API_KEY: ClassVar[ApiKey] = ApiKey.LIST_GROUPS
        ...
        states_filter: list[str] = field(array(STRING), since=4)

`@message` makes a dataclass with slots; every field has a default. `struct_for(ListGroupsRequest, version=4)` is the
construct of one version: fields outside their version range are left out, flexible versions get compact lengths and a
tagged section. The class methods of a dataclass are built on first use only: making them for some three hundred structs
at import would cost more than the whole start of the daemon may.
"""

import dataclasses
from dataclasses import MISSING, dataclass
from typing import Any, TypeVar, dataclass_transform

from construct import Adapter, Container, Struct

from protocol.primitives import ArrayType, Presence, Sequence, TaggedField, TaggedSection, WireType

T = TypeVar("T")

NEVER_FLEXIBLE = 1 << 15
"""`FLEXIBLE_SINCE` of an API without flexible versions: above every int16 version."""

TAGGED_SECTION = "tagged_section"
SPEC = "spec"


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """How a field travels: its wire type, its versions, where null is allowed, its tag."""

    codec: Any
    since: int
    until: int
    nullable_since: int
    tag: int | None
    default: Any

    def is_in(self, version: int) -> bool:
        """Say whether the field exists in this version."""
        return self.since <= version <= self.until

    def make_default(self) -> Any:
        """Return the value of an absent field; never the same list or struct twice."""
        if self.default is not MISSING:
            return self.default
        if isinstance(self.codec, WireType):
            return self.codec.default
        return [] if isinstance(self.codec, ArrayType) else self.codec()


def field(
    codec: Any,
    *,
    since: int = 0,
    until: int = NEVER_FLEXIBLE,
    nullable: bool = False,
    nullable_since: int | None = None,
    tag: int | None = None,
    default: Any = MISSING,
    doc: str = "",
) -> Any:
    """Declare a field: in versions [since, until], null allowed always or from a version on, tagged if it has a tag."""
    if nullable_since is None:
        nullable_since = 0 if nullable else NEVER_FLEXIBLE
    spec = FieldSpec(codec, since, until, nullable_since, tag, default)
    return dataclasses.field(default_factory=spec.make_default, metadata={SPEC: spec, "doc": doc})


@dataclass_transform()
def message(cls: type[T]) -> type[T]:
    """Make a message class of a declaration. To type checkers every `field(...)` is a default value, hence optional."""
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__init__ = _init_on_first_use
    made.__repr__ = _repr
    made.__eq__ = _eq
    made.__hash__ = None
    result: type[T] = made
    return result


def field_specs(message_type: type) -> dict[str, FieldSpec]:
    """Return the fields of a message in wire order."""
    return {entry.name: entry.metadata[SPEC] for entry in dataclasses.fields(message_type)}


def _init_on_first_use(self: Any, *args: Any, **kwargs: Any) -> None:
    cls: Any = type(self)
    cls.__init__ = _compile_init(cls)
    cls.__init__(self, *args, **kwargs)


def _compile_init(cls: type) -> Any:
    """Build `__init__` with one keyword per field; a default that is made anew is made in the body."""
    scope: dict[str, Any] = {"ABSENT": object()}
    parameters, body = [], []
    for index, (name, spec) in enumerate(field_specs(cls).items()):
        default = spec.make_default()
        if default is None or isinstance(default, (int, float, str, bytes)):
            scope[f"default_{index}"] = default
            parameters.append(f"{name}=default_{index}")
            body.append(f"    self.{name} = {name}")
        else:
            scope[f"make_{index}"] = type(default)
            parameters.append(f"{name}=ABSENT")
            body.append(f"    self.{name} = make_{index}() if {name} is ABSENT else {name}")
    exec(f"def __init__(self, {', '.join(parameters)}):\n" + ("\n".join(body) or "    pass"), scope)
    return scope["__init__"]


def _values(instance: Any) -> tuple[Any, ...]:
    return tuple(getattr(instance, name) for name in type(instance).__slots__)


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__slots__)
    return f"{type(self).__name__}({shown})"


def _eq(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


class MessageStruct(Adapter):  # type: ignore[misc]  # construct is untyped
    """The construct of a message in one version, from and to instances of its class."""

    def __init__(self, message_type: type, struct: Any, tagged: TaggedSection | None) -> None:
        super().__init__(struct)
        self.message_type = message_type
        self.tagged = tagged
        self.names = [atom.name for atom in struct.subcons if atom.name != TAGGED_SECTION]

    def _decode(self, obj: Any, context: Any, path: str) -> Any:
        values = {name: obj[name] for name in self.names}
        if self.tagged is not None:
            values.update(obj[TAGGED_SECTION])
        return self.message_type(**values)

    def _encode(self, obj: Any, context: Any, path: str) -> Any:
        values = Container({name: getattr(obj, name) for name in self.names})
        if self.tagged is not None:
            values[TAGGED_SECTION] = {entry.name: getattr(obj, entry.name) for entry in self.tagged.fields}
        return values


def struct_for(message_type: type, version: int, flexible_since: int | None = None) -> MessageStruct:
    """Return the construct of one version; nested structs are given the flexible version of their message."""
    if flexible_since is None:
        flexible_since = int(message_type.FLEXIBLE_SINCE)  # type: ignore[attr-defined]
    plain, tagged = [], []
    for name, spec in field_specs(message_type).items():
        if not spec.is_in(version):
            continue
        atom = _atom(
            spec.codec, version, flexible_since, nullable=version >= spec.nullable_since, is_tagged=spec.tag is not None
        )
        if spec.tag is None:
            plain.append(name / atom)
        else:
            tagged.append(TaggedField(spec.tag, name, atom, spec.make_default))
    if version < flexible_since:
        assert not tagged, "tags exist in flexible versions only"
        return MessageStruct(message_type, Struct(*plain), None)
    section = TaggedSection(tagged)
    return MessageStruct(message_type, Struct(*plain, TAGGED_SECTION / section), section)


def _atom(codec: Any, version: int, flexible_since: int, *, nullable: bool, is_tagged: bool = False) -> Any:
    flexible = version >= flexible_since
    if isinstance(codec, WireType):
        return codec.atom(flexible, nullable)
    if isinstance(codec, ArrayType):
        element = _atom(codec.element, version, flexible_since, nullable=False)
        return Sequence(element, compact=flexible, nullable=nullable)
    struct = struct_for(codec, version, flexible_since)
    return Presence(struct, is_tagged=is_tagged) if nullable else struct
