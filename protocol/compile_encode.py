"""Write the encoder of one message version as Python source, from its construct declaration.

The twin appends to one bytearray: neighbours of fixed size, with a length that follows them, are one `struct` call, and
a length that needs more than one varint byte takes a branch of its own. Tags are built aside, and only when one of them
differs from its default. Records that are a Blob close the bytearray and ride along as their own chunk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct, pack
from typing import Any

from protocol.compile_decode import fixed_code
from protocol.message import MessageStruct, field_specs
from protocol.primitives import (
    MAX_STRING_BYTES,
    Binary,
    Presence,
    Sequence,
    TaggedField,
    TaggedSection,
    Text,
    encode_uvarint,
)

BYTES_LIKE = (bytes, bytearray, memoryview)


def long_string_length(length: int) -> bytes:
    """Return the long form of a compact string's length."""
    if length > MAX_STRING_BYTES:
        raise ValueError(f"string of {length} bytes")
    return encode_uvarint(length + 1)


def long_length(length: int) -> bytes:
    """Return the long form of a compact length."""
    return encode_uvarint(length + 1)


def tagged_section(fields: list[tuple[int, bytes]]) -> bytes:
    """Return a tagged section of (tag, payload) in ascending order."""
    parts = [encode_uvarint(len(fields))]
    for tag, payload in fields:
        parts += (encode_uvarint(tag), encode_uvarint(len(payload)), payload)
    return b"".join(parts)


class EncoderSource:
    """The source of one encoder, and of the encoders of its tags, while it is being written."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {
            "BYTES_LIKE": BYTES_LIKE,
            "pack": pack,
            "long_length": long_length,
            "long_string_length": long_string_length,
            "tagged_section": tagged_section,
        }
        self.lines: list[str] = []
        self.functions: list[str] = []
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
        """Add a line that needs nothing written before it."""
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a block; what it writes is written when it ends, what was pending before it stays so."""
        self.line(head)
        outer, self._pending = self._pending, []
        self._depth += 1
        yield
        assert not (outer and self._pending), "bytes of a block would overtake the ones before it"
        self.flush()
        self._depth -= 1
        self._pending = outer

    def write_fixed(self, code: str, expression: str) -> None:
        """Write a value of fixed size, together with its neighbours."""
        self._pending.append((code, expression))

    def flush(self) -> None:
        """Write what is pending as one call."""
        pending, self._pending = self._pending, []
        self._pack(pending)

    def _pack(self, pending: list[tuple[str, str]]) -> None:
        if not pending:
            return
        if [code for code, _ in pending] == ["B"]:
            self.line(f"out.append({pending[0][1]})")
            return
        packer = self.name("pack", Struct(">" + "".join(code for code, _ in pending)).pack)
        self.line(f"out += {packer}({', '.join(expression for _, expression in pending)})")

    def write(self, atom: Any, value: str) -> None:
        """Write anything; `value` is an expression without side effects."""
        code = fixed_code(atom)
        if code is not None:
            self.write_fixed(code, value)
        elif isinstance(atom, Text):
            self._write_text(atom, value)
        elif isinstance(atom, Binary):
            self._write_binary(atom, value)
        elif isinstance(atom, Sequence):
            self._write_sequence(atom, value)
        elif isinstance(atom, Presence):
            self._write_presence(atom, value)
        else:
            assert isinstance(atom, MessageStruct), atom
            self._write_struct(atom, value)

    def _write_length(self, atom: Any, length: str, long_form: str = "long_length") -> None:
        """Write a length that is -1 for null, after whatever is pending."""
        if not atom.compact:
            self.write_fixed("h" if isinstance(atom, Text) else "i", length)
            self.flush()
            return
        pending, self._pending = self._pending, []
        with self.block(f"if {length} < 127:"):
            self._pack([*pending, ("B", f"{length} + 1")])
        with self.block("else:"):
            self._pack(pending)
            self.line(f"out += {long_form}({length})")

    def _write_text(self, atom: Text, value: str) -> None:
        data, length = self.name("s"), self.name("l")
        if atom.nullable:
            self.line(f"{data} = {value}")
            with self.block(f"if {data} is None:"):
                self.line(f"{data} = b''")
                self.line(f"{length} = -1")
            with self.block("else:"):
                self.line(f"{data} = {data}.encode()")
                self.line(f"{length} = len({data})")
        else:
            self.line(f"{data} = {value}.encode()")
            self.line(f"{length} = len({data})")
        self._write_length(atom, length, "long_string_length")
        self.line(f"out += {data}")

    def _write_sized(self, atom: Any, value: str) -> tuple[str, str]:
        """Write the length of something that has one; return the variables of the value and of its length."""
        data, length = self.name("v"), self.name("l")
        self.line(f"{data} = {value}")
        self.line(f"{length} = len({data})" + (f" if {data} is not None else -1" if atom.nullable else ""))
        self._write_length(atom, length)
        return data, length

    def _write_binary(self, atom: Binary, value: str) -> None:
        data, length = self._write_sized(atom, value)
        with self.block(f"if {length} > 0:"):
            if not atom.is_records:
                self.line(f"out += {data}")
                return
            with self.block(f"if isinstance({data}, BYTES_LIKE):"):
                self.line(f"out += {data}")
            with self.block("else:"):
                self.line("chunks.append(out)")
                self.line(f"chunks.append({data})")
                self.line("out = bytearray()")

    def _write_sequence(self, atom: Sequence, value: str) -> None:
        items, length = self._write_sized(atom, value)
        code = fixed_code(atom.element)
        with self.block(f"if {length} > 0:"):
            if code is not None and len(code) == 1:
                self.line(f"out += pack(f'>{{{length}}}{code}', *{items})")
                return
            item = self.name("item")
            with self.block(f"for {item} in {items}:"):
                self.write(atom.element, item)

    def _write_presence(self, atom: Presence, value: str) -> None:
        struct = self.name("o")
        self.line(f"{struct} = {value}")
        self.write_fixed("b", f"{0 if atom.is_tagged else -1} if {struct} is None else 1")
        self.flush()
        with self.block(f"if {struct} is not None:"):
            self._write_struct(atom.struct, struct)

    def _write_struct(self, struct: MessageStruct, value: str) -> None:
        if not value.isidentifier():
            instance = self.name("o")
            self.line(f"{instance} = {value}")
            value = instance
        for atom in struct.subcon.subcons:
            if not isinstance(atom.subcon, TaggedSection):
                self.write(atom.subcon, f"{value}.{atom.name}")
        if struct.tagged is not None:
            self._write_tagged_section(struct.tagged, value)

    def _write_tagged_section(self, section: TaggedSection, instance: str) -> None:
        if not section.fields:
            self.write_fixed("B", "0")
            return
        tags = []
        for field in section.fields:
            value = self.name("v")
            self.line(f"{value} = {instance}.{field.name}")
            tags.append((field, value, differs(value, field.atom, field.make_default())))
        pending, self._pending = self._pending, []
        with self.block(f"if {' or '.join(condition for _, _, condition in tags)}:"):
            self._pack(pending)
            self.line("tags = []")
            for field, value, condition in tags:
                with self.block(f"if {condition}:"):
                    self.line(f"tags.append(({field.tag}, {self._tag_function(field)}({value})))")
            self.line("out += tagged_section(tags)")
        with self.block("else:"):
            self._pack([*pending, ("B", "0")])

    def _tag_function(self, field: TaggedField) -> str:
        """Write the function that encodes the payload of one tag; return its name."""
        name = self.name("tag")
        saved = self.lines, self._depth, self._pending
        self.lines, self._depth, self._pending = [], 1, []
        self.write(field.atom, "value")
        self.flush()
        body = "\n".join(self.lines)
        self.functions.append(f"def {name}(value):\n    out = bytearray()\n{body}\n    return out\n")
        self.lines, self._depth, self._pending = saved
        return name


def differs(value: str, atom: Any, default: Any) -> str:
    """Return the expression that says whether a value is not its default, as far as this version can tell."""
    if default is None:
        return f"{value} is not None"
    if isinstance(atom, Presence):
        return f"({value} is None or {differs(value, atom.struct, default)})"
    if not isinstance(atom, MessageStruct):
        return f"{value} != {default!r}"
    atoms = {entry.name: entry.subcon for entry in atom.subcon.subcons if not isinstance(entry.subcon, TaggedSection)}
    if atom.tagged is not None:
        atoms |= {field.name: field.atom for field in atom.tagged.fields}
    specs = field_specs(atom.message_type)
    parts = [differs(f"{value}.{name}", nested, specs[name].make_default()) for name, nested in atoms.items()]
    return f"({' or '.join(parts)})"


def compile_encoder(struct: MessageStruct) -> Any:
    """Return `encode(message, out, chunks) -> out`: it appends to a bytearray, and a Blob moves on to a fresh one."""
    source = EncoderSource()
    source.write(struct, "message")
    source.flush()
    body = "\n".join(source.lines)
    text = "\n".join([*source.functions, f"def encode(message, out, chunks):\n{body}\n    return out\n"])
    exec(compile(text, f"<encoder of {struct.message_type.__name__}>", "exec"), source.scope)
    return source.scope["encode"]
