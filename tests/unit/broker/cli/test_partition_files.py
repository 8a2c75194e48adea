"""Files of partitions: what is refused, in one line, and what is handed on."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.errors import CommandError
from broker.cli.partition_files import read_rows


def test_the_rows_come_as_they_are(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text('{"partitions": [{"topic": "t"}, 5]}', encoding="utf-8")
    assert read_rows(str(path)) == [{"topic": "t"}, 5]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not valid JSON"),
        ("[]", "expected an object"),
        ('{"version": 2, "partitions": []}', "Not supported version field value 2"),
        ('{"version": 1}', "Missing partitions field"),
        ('{"partitions": {}}', "Missing partitions field"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, reason: str):
    path = tmp_path / "file"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match=reason):
        read_rows(str(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(CommandError, match=r"Cannot read .*/nowhere: No such file or directory"):
        read_rows(str(tmp_path / "nowhere"))
