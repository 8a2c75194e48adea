"""Write the decoder of one message version as Python source, from its construct declaration.

What makes the twin fast: neighbours of fixed size, and the length that follows them, are one `struct` call straight
into attributes; one-byte varints are an index; instances are made without `__init__`. What makes it short: a string or
byte slice that runs past the end is simply cut by Python, the position then lies beyond the end, and either the next
read raises or the last check does. Arrays are checked before their loop, so a claimed length costs nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct, unpack_from
from typing import Any

from construct import Bytes, FormatField

from protocol.errors import ProtocolError
from protocol.message import MessageStruct, field_specs
from protocol.primitives import (
    MAX_ARRAY_LENGTH,
    MAX_STRING_BYTES,
    MAX_TAGGED_FIELDS,
    SMALL_UVARINT,
    Binary,
    Presence,
    Sequence,
    TaggedSection,
    Text,
)

STRUCT_CODES = {"l": "i", "L": "I"}
"""construct's letters for four bytes, and the ones that mean four bytes in every mode of `struct`."""


def fixed_code(atom: Any) -> str | None:
    """Return the `struct` code of an atom of fixed size, None for the others."""
    if isinstance(atom, FormatField):
        letter: str = atom.fmtstr[-1]
        return STRUCT_CODES.get(letter, letter)
    return f"{atom.length}s" if isinstance(atom, Bytes) else None


def read_uvarint(buffer: Any, position: int) -> tuple[int, int]:
    """Read a varint of any length; return it with the position after it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & SMALL_UVARINT) << shift
        if byte <= SMALL_UVARINT:
            if value >= 1 << 32:
                raise ProtocolError("varint longer than 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolError("varint longer than 32 bits")


def read_string_length(buffer: Any, position: int) -> tuple[int, int]:
    """Read the long form of a compact string's length."""
    length, position = read_uvarint(buffer, position)
    if length > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"string of {length - 1} bytes")
    return length, position


def read_tags(buffer: Any, position: int, end: int) -> tuple[list[tuple[int, int, int]], int]:
    """Read a tagged section without its payloads: (tag, start, end) each, and the position after the section."""
    count, position = read_uvarint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise ProtocolError(f"{count} tagged fields")
    found = []
    previous = -1
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        if tag <= previous:
            raise ProtocolError(f"tag {tag} after tag {previous}")
        if size > end - position:
            raise ProtocolError(f"tag {tag} of {size} bytes, {end - position} left")
        found.append((tag, position, position + size))
        position += size
        previous = tag
    return found, position


class DecoderSource:
    """The source of one decoder while it is being written."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {
            "ProtocolError": ProtocolError,
            "new": object.__new__,
            "unpack_from": unpack_from,
            "read_uvarint": read_uvarint,
            "read_string_length": read_string_length,
            "read_tags": read_tags,
        }
        self.lines: list[str] = []
        self._depth = 1
        self._pending: list[tuple[str, str]] = []
        self._names = 0

    def name(self, prefix: str, value: Any = None) -> str:
        """Return a fresh name; one with a value is global to the function."""
        self._names += 1
        name = f"{prefix}{self._names}"
        if value is not None:
            self.scope[name] = value
        return name

    def line(self, text: str) -> None:
        """Add a line after the reads that are due before it."""
        self.flush()
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a block; its reads are complete when it ends."""
        self.line(head)
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    def read_fixed(self, code: str, target: str) -> None:
        """Read a value of fixed size into a target, together with its neighbours."""
        self._pending.append((code, target))

    def flush(self) -> None:
        """Write the pending reads of fixed size as one call."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        pad = "    " * self._depth
        if [code for code, _ in pending] == ["B"]:
            self.lines.append(f"{pad}{pending[0][1]} = b[p]")
            self.lines.append(f"{pad}p += 1")
            return
        layout = Struct(">" + "".join(code for code, _ in pending))
        unpack = self.name("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in pending)
        self.lines.append(f"{pad}{targets}{',' if len(pending) == 1 else ''} = {unpack}(b, p)")
        self.lines.append(f"{pad}p += {layout.size}")

    def read(self, atom: Any, target: str) -> None:
        """Read anything into a target."""
        code = fixed_code(atom)
        if code is not None:
            self.read_fixed(code, target)
        elif isinstance(atom, Text):
            self._read_text(atom, target)
        elif isinstance(atom, Binary):
            self._read_binary(atom, target)
        elif isinstance(atom, Sequence):
            self._read_sequence(atom, target)
        elif isinstance(atom, Presence):
            self._read_presence(atom, target)
        else:
            assert isinstance(atom, MessageStruct), atom
            self._read_struct(atom, target)

    def _read_length(self, atom: Any, long_form: str = "read_uvarint") -> str:
        """Read a length and leave it, without the compact offset, in a fresh variable; null is below zero."""
        length = self.name("l")
        if not atom.compact:
            self.read_fixed("h" if isinstance(atom, Text) else "i", length)
            return length
        self.read_fixed("B", length)
        with self.block(f"if {length} > 127:"):
            self.line(f"{length}, p = {long_form}(b, p - 1)")
        self.line(f"{length} -= 1")
        return length

    def _read_null(self, atom: Any, target: str) -> None:
        with self.block("else:"):
            self.line(f"{target} = None" if atom.nullable else f"raise ProtocolError('{target}: null is not allowed')")

    def _read_text(self, atom: Text, target: str) -> None:
        length = self._read_length(atom, "read_string_length")
        with self.block(f"if {length} >= 0:"):
            self.line(f"q = p + {length}")
            self.line(f"{target} = str(b[p:q], 'utf-8')")
            self.line("p = q")
        self._read_null(atom, target)

    def _read_binary(self, atom: Binary, target: str) -> None:
        length = self._read_length(atom)
        with self.block(f"if {length} >= 0:"):
            self.line(f"q = p + {length}")
            self.line(f"{target} = view[p:q]" if atom.is_records else f"{target} = bytes(b[p:q])")
            self.line("p = q")
        self._read_null(atom, target)

    def _read_sequence(self, atom: Sequence, target: str) -> None:
        count = self._read_length(atom)
        with self.block(f"if {count} > 0:"):
            with self.block(f"if {count} > n - p or {count} > {MAX_ARRAY_LENGTH}:"):
                self.line(f"raise ProtocolError(f'{target}: array of {{{count}}} elements, {{n - p}} bytes left')")
            self._read_elements(atom.element, count, target)
        with self.block(f"elif {count} == 0:"):
            self.line(f"{target} = []")
        self._read_null(atom, target)

    def _read_elements(self, element: Any, count: str, target: str) -> None:
        if isinstance(element, FormatField):
            size = element.length
            self.line(f"{target} = list(unpack_from(f'>{{{count}}}{fixed_code(element)}', b, p))")
            self.line(f"p += {size} * {count}")
            return
        items, item = self.name("items"), self.name("item")
        self.line(f"{target} = {items} = []")
        with self.block(f"for _ in range({count}):"):
            self.read(element, item)
            self.line(f"{items}.append({item})")

    def _read_presence(self, atom: Presence, target: str) -> None:
        presence = self.name("l")
        self.read_fixed("B", presence)
        with self.block(f"if {presence}:" if atom.is_tagged else f"if {presence} < 128:"):
            self._read_struct(atom.struct, target)
        with self.block("else:"):
            self.line(f"{target} = None")

    def _read_struct(self, struct: MessageStruct, target: str) -> None:
        instance = self._new_instance(struct.message_type, target)
        for atom in struct.subcon.subcons:
            if not isinstance(atom.subcon, TaggedSection):
                self.read(atom.subcon, f"{instance}.{atom.name}")
        present = set(struct.names)
        if struct.tagged is not None:
            present.update(field.name for field in struct.tagged.fields)
            self._read_tagged_section(struct.tagged, instance)
        for name, spec in field_specs(struct.message_type).items():
            if name not in present:
                self._set_default(f"{instance}.{name}", spec.make_default())

    def _new_instance(self, message_type: type, target: str) -> str:
        cls = self.name(message_type.__name__, message_type)
        if target.isidentifier():
            self.line(f"{target} = new({cls})")
            return target
        instance = self.name("o")
        self.line(f"{target} = {instance} = new({cls})")
        return instance

    def _set_default(self, target: str, default: Any) -> None:
        if default is None or isinstance(default, (int, float, str, bytes, list)):
            self.line(f"{target} = {default!r}")
            return
        instance = self._new_instance(type(default), target)
        for name, spec in field_specs(type(default)).items():
            self._set_default(f"{instance}.{name}", spec.make_default())

    def _read_tagged_section(self, section: TaggedSection, instance: str) -> None:
        count = self.name("t")
        self.read_fixed("B", count)
        for field in section.fields:
            self._set_default(f"{instance}.{field.name}", field.make_default())
        with self.block(f"if {count}:"):
            found, after, tag, end = self.name("found"), self.name("after"), self.name("tag"), self.name("end")
            self.line(f"{found}, {after} = read_tags(b, p - 1, n)")
            if section.fields:
                with self.block(f"for {tag}, p, {end} in {found}:"):
                    self._read_known_tags(section, instance, tag, end)
            self.line(f"p = {after}")

    def _read_known_tags(self, section: TaggedSection, instance: str, tag: str, end: str) -> None:
        for index, field in enumerate(section.fields):
            with self.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                self.read(field.atom, f"{instance}.{field.name}")
                with self.block(f"if p != {end}:"):
                    self.line(f"raise ProtocolError('{instance}.{field.name}: the tag does not fill its size')")


def compile_decoder(struct: MessageStruct) -> Any:
    """Return `decode(b, p, n, view) -> message`: b is the buffer, p where to begin, n its end, view b as memoryview."""
    source = DecoderSource()
    source.read(struct, "message")
    with source.block("if p > n:"):
        source.line("raise ProtocolError('the frame ends too early')")
    source.line("return message")
    text = "def decode(b, p, n, view):\n" + "\n".join(source.lines) + "\n"
    exec(compile(text, f"<decoder of {struct.message_type.__name__}>", "exec"), source.scope)
    return source.scope["decode"]
