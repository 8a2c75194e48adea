"""Lines and what they are taken apart into."""

from __future__ import annotations

import pytest

from broker.cli.errors import CommandError
from broker.cli.line_reader import LineReader, lines_of

KEYED = {"parse.key": "true"}
ALL = {"parse.key": "true", "parse.headers": "true"}


def records(properties, *lines):
    return list(LineReader(properties).records(list(lines)))


def test_a_line_is_a_value():
    assert records({}, b"a\tb", b"") == [(None, b"a\tb", None), (None, b"", None)]


def test_a_key_stands_before_the_first_separator():
    assert records(KEYED, b"k\tv\tw", b"\tv") == [(b"k", b"v\tw", None), (b"", b"v", None)]
    assert records({**KEYED, "key.separator": "::"}, b"k::v") == [(b"k", b"v", None)]


def test_headers_stand_before_the_key():
    assert records(ALL, b"h:1,i:a:b,h:\tk\tv") == [(b"k", b"v", [("h", b"1"), ("i", b"a:b"), ("h", b"")])]
    assert records({"parse.headers": "TRUE "}, b"h:1,\tv") == [(None, b"v", [("h", b"1")])]


def test_the_null_marker_stands_for_nothing():
    reader = {**ALL, "null.marker": "NULL"}
    assert records(reader, b"NULL\tNULL\tNULL", b"h:NULL\tk\tv") == [
        (None, None, None),
        (b"k", b"v", [("h", None)]),
    ]
    with pytest.raises(CommandError, match="Header keys should not be equal to the null marker 'NULL'"):
        records(reader, b"NULL:1\tk\tv")


def test_a_line_without_its_separator_is_refused_with_its_number_unless_errors_are_ignored():
    with pytest.raises(CommandError, match="No key separator found on line number 2: 'bad'"):
        records(KEYED, b"k\tv", b"bad")
    with pytest.raises(CommandError, match="No headers delimiter found on line number 1: 'bad'"):
        records(ALL, b"bad")
    with pytest.raises(CommandError, match="No header key separator found in pair 'h' on line number 1"):
        records(ALL, b"h\tk\tv")
    ignoring = {**ALL, "ignore.error": "true"}
    assert records(ignoring, b"bad", b"h\tk\tv") == [(None, b"bad", None), (b"k", b"v", [("h", None)])]


def test_separators_that_cannot_be_told_apart_are_refused():
    with pytest.raises(CommandError, match=r"headers\.delimiter and headers\.separator may not be equal"):
        LineReader({"headers.delimiter": ","})
    with pytest.raises(CommandError, match=r"null\.marker and key\.separator may not be equal"):
        LineReader({"null.marker": "\t", "headers.delimiter": ";"})
    with pytest.raises(CommandError, match=r"key\.separator may not be empty"):
        LineReader({"key.separator": ""})


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_end_as_in_java_wherever_they_are_cut(size):
    text = b"a\nb\r\nc\rd\n\n\r\ne\r\r\nlast"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    read = iter([*pieces, b""])
    lines = [line for some in lines_of(lambda: next(read)) for line in some]
    assert lines == [b"a", b"b", b"c", b"d", b"", b"", b"e", b"", b"last"]


@pytest.mark.parametrize(("text", "lines"), [(b"", []), (b"\n", [b""]), (b"a\n", [b"a"]), (b"a\r", [b"a"])])
def test_the_last_line_needs_no_end(text, lines):
    read = iter([text, b""] if text else [b""])
    assert [line for some in lines_of(lambda: next(read)) for line in some] == lines
