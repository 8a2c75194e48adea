"""Lines into records, as kafka-console-producer.sh takes them apart: `h1:v1,h2:v2<tab>key<tab>value`.

What a line has besides the value, and what separates its parts, say the properties of Kafka's LineMessageReader. Bytes
stay as they are: what is no UTF-8 is not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from broker.cli.errors import CommandError
from broker.client.producer import Record

MAX_LINE_BYTES = 64 << 20
"""Without an end, a line would take all memory; records have to be far smaller."""


class LineReader:
    """Takes lines apart. Raises: CommandError for properties that contradict each other."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._has_key = _is_true(properties, "parse.key")
        self._has_headers = _is_true(properties, "parse.headers")
        self._ignores_errors = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._headers_delimiter = properties.get("headers.delimiter", "\t").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._headers_key_separator = properties.get("headers.key.separator", ":").encode()
        marker = properties.get("null.marker")
        self._null = None if marker is None else marker.encode()
        self._number = 0  # of the newest line; changed by records
        self._check()
        self.is_plain = not (self._has_key or self._has_headers or self._null is not None)
        """Whether a line is a value and nothing else."""

    def records(self, lines: list[bytes]) -> Iterator[Record]:
        """Yield a record for each line. Raises: CommandError for a line without its separators."""
        if self.is_plain:
            self._number += len(lines)
            for line in lines:
                yield None, line, None
            return
        for line in lines:
            self._number += 1
            yield self._record(line)

    def _record(self, line: bytes) -> Record:
        headers = key = None
        rest = line
        if self._has_headers:
            headers, rest = self._cut(line, rest, self._headers_delimiter, "headers delimiter")
        if self._has_key:
            key, rest = self._cut(line, rest, self._key_separator, "key separator")
        value = None if rest == self._null else rest
        parsed = None if headers is None or headers == self._null else list(self._headers(headers))
        return None if key == self._null else key, value, parsed

    def _cut(self, line: bytes, rest: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        part, found, after = rest.partition(separator)
        if found:
            return part, after
        if self._ignores_errors:
            return None, rest
        raise CommandError(f"No {name} found on line number {self._number}: '{_shown(line)}'")

    def _headers(self, text: bytes) -> Iterator[tuple[str, bytes | None]]:
        pairs = text.split(self._headers_separator)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()  # as Java splits
        for pair in pairs:
            name, found, value = pair.partition(self._headers_key_separator)
            if not found and not self._ignores_errors:
                raise CommandError(
                    f"No header key separator found in pair '{_shown(pair)}' on line number {self._number}"
                )
            if found and name == self._null:
                raise CommandError(f"Header keys should not be equal to the null marker '{_shown(name)}'")
            yield name.decode("utf-8", "surrogateescape"), value if found and value != self._null else None

    def _check(self) -> None:
        parts = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._headers_key_separator,
        }
        for name, part in {**parts, "key.separator": self._key_separator}.items():
            if not part:
                raise CommandError(f"{name} may not be empty")
            if part == self._null:
                raise CommandError(f"null.marker and {name} may not be equal")
        names = list(parts)
        for index, name in enumerate(names):
            for other in names[index + 1 :]:
                if parts[name] == parts[other]:
                    raise CommandError(f"{name} and {other} may not be equal")


def lines_of(read: Callable[[], bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of each piece that is read, without their ends: \\n, \\r\\n or \\r, as Java reads lines."""
    rest = b""
    while piece := read():
        if b"\r" in piece or rest.endswith(b"\r"):
            held = piece.endswith(b"\r")  # the \n of this end may come with the next piece
            text = rest + (piece[:-1] if held else piece)
            lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            rest = lines.pop() + (b"\r" if held else b"")
        else:
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
        if len(rest) > MAX_LINE_BYTES:
            raise CommandError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        yield lines
    if rest:
        yield [rest.removesuffix(b"\r")]


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def _shown(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")
