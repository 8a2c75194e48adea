"""Where the static configuration comes from: properties file, environment, command line; each value with its origin.

- Properties file: Java's syntax, read as UTF-8 (as Latin-1 where it is not). A later line for one key wins.
- Environment: the mapping of Kafka's official image. KAFKA_ is cut off, the rest is put in lower case, then ___ becomes
  -, __ becomes _ and _ becomes a dot; the image's own variables for the JVM and its tools are no configuration.
- Command line: key=value, cut at the first equals sign.

Source: java.util.Properties.load, kafka.docker.KafkaDockerWrapper, kafka.Kafka --override.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from os.path import basename
from typing import NamedTuple

from config.errors import InvalidConfig


class SourcedValue(NamedTuple):
    """The text given for a key and the place it was given at."""

    text: str
    origin: str


Layer = Mapping[str, SourcedValue]

_IMAGE_VARIABLES = frozenset(
    {
        "KAFKA_CLUSTER_ID",
        "KAFKA_DEBUG",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_OPTS",
        "KAFKA_VERSION",
    }
)
_IMAGE_PREFIXES = ("KAFKA_JMX_", "KAFKA_LOG4J_", "KAFKA_TOOLS_")


def read_properties(path: str) -> Layer:
    """Read a properties file. Raises InvalidConfig when it cannot be read. Blocking: disk."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InvalidConfig(f"Cannot read the properties file {path}: {error.strerror}") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return parse_properties(text, basename(path))


def parse_properties(text: str, file_name: str) -> Layer:
    """Parse the text of a properties file; origins read file:line. Raises: InvalidConfig for half an escape."""
    values = {}
    for number, line in _logical_lines(text):
        origin = f"{file_name}:{number}"
        try:
            key, value = map(_unescape, _split(line))
        except InvalidConfig as error:
            raise InvalidConfig(f"{error.message} in a properties file ({origin})") from error
        values[key] = SourcedValue(value.rstrip(), origin)
    return values


def from_environment(environ: Mapping[str, str]) -> Layer:
    """Map the KAFKA_ variables onto keys."""
    values = {}
    for variable in sorted(environ):
        if not variable.startswith("KAFKA_") or variable in _IMAGE_VARIABLES or variable.startswith(_IMAGE_PREFIXES):
            continue
        name = variable.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_")
        values[name] = SourcedValue(environ[variable], f"environment {variable}")
    return values


def from_overrides(overrides: Iterable[str]) -> Layer:
    """Parse key=value arguments of the command line; a later one wins."""
    values = {}
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            raise InvalidConfig(f"Invalid value {override} for option --override: expected key=value")
        values[name.strip()] = SourcedValue(text.strip(), "--override")
    return values


_BLANKS = " \t\f"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (first line number, content) with continuation lines joined, comments and blank lines left out."""
    pending = ""
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = raw.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            # An odd number of backslashes at the end continues the line; an even one is escaped backslashes.
            pending += line[:-1]
            first = first or number
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending


def _split(line: str) -> tuple[str, str]:
    """Cut a logical line at the first unescaped =, : or blank; one = or : may follow blanks."""
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANKS:
        position += 2 if line[position] == "\\" else 1
    key, rest = line[:position], line[position:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_replace_escape, text)


def _replace_escape(match: re.Match[str]) -> str:
    escaped = match.group(1)
    if escaped == "u":
        raise InvalidConfig(r"Malformed \uxxxx encoding")
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return _CONTROL.get(escaped, escaped)
