"""Files shown by what their names say, as text and as JSON lines."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from broker.offline.batches import MAX_HELD_BYTES
from broker.offline.dump.decoders import as_bytes
from broker.offline.dump.json_lines import JsonPrinter
from broker.offline.dump.run import DumpOptions, dump
from broker.offline.dump.text import TextPrinter, java_text
from storage.env.posix import PosixFileSystem
from tests.harness import batches
from tests.harness.batches import Record

TIME = 1_700_000_000_000


def text(*paths: Path, **options: Any) -> tuple[bool, list[str], list[str]]:
    """Give whether all could be read, the lines, and the complaints."""
    out, errors = io.StringIO(), io.StringIO()
    done = dump(PosixFileSystem(), TextPrinter(out, errors), [*map(str, paths)], DumpOptions(**options))
    return done, out.getvalue().splitlines(), errors.getvalue().splitlines()


def rows(*paths: Path, **options: Any) -> list[dict[str, Any]]:
    """Give the objects."""
    out = io.StringIO()
    dump(PosixFileSystem(), JsonPrinter(out, io.StringIO()), [*map(str, paths)], DumpOptions(**options))
    return [json.loads(line) for line in out.getvalue().splitlines()]


def log(directory: Path, content: bytes, name: str = f"{0:020}.log") -> Path:
    path = directory / name
    path.write_bytes(content)
    return path


def test_json_tells_everything_of_a_batch_and_its_records(tmp_path: Path) -> None:
    records = [Record(b"\xff", b"key", ((b"h", b"v"), (b"h", None)), TIME), Record(None, None, timestamp=TIME + 1)]
    options = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 2147483647, "attributes": batches.TRANSACTIONAL}
    path = log(tmp_path, batches.build(records, codec=batches.LZ4, base_offset=7, **options))
    start, batch, first, second = rows(path, decoder=as_bytes)
    assert start == {"file": str(path), "type": "file", "kind": "log", "start": 0}
    assert batch["crc"] == batches.parse(path.read_bytes())[0].crc
    shown = {name: batch[name] for name in ("position", "baseOffset", "lastOffset", "count", "producerId",
             "producerEpoch", "baseSequence", "lastSequence", "isTransactional", "isControl", "deleteHorizonMs",
             "timestampType", "maxTimestamp", "magic", "compression", "isValid")}  # fmt: skip
    assert shown == {
        "position": 0, "baseOffset": 7, "lastOffset": 8, "count": 2, "producerId": 5, "producerEpoch": 1,
        "baseSequence": 2147483647, "lastSequence": 0, "isTransactional": True, "isControl": False,
        "deleteHorizonMs": None, "timestampType": "CreateTime", "maxTimestamp": TIME + 1, "magic": 2,
        "compression": "lz4", "isValid": True,
    }  # fmt: skip
    assert (first["offset"], first["sequence"], second["sequence"]) == (7, 2147483647, 0)
    assert (first["key"], first["keyEncoding"]) == ("key", "utf-8")
    assert (first["value"], first["valueEncoding"]) == ("/w==", "base64")
    assert first["headers"] == [{"key": "h", "value": "v", "valueEncoding": "utf-8"}, {"key": "h", "value": None}]
    assert (second["key"], second["value"], second["valueSize"]) == (None, None, -1)


def test_a_record_section_that_inflates_without_end_is_refused_and_the_rest_shown(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(MAX_HELD_BYTES + 1), 9)
    content = batches.build([Record(b"")], codec=batches.GZIP, section=bomb) + batches.simple("after", base_offset=1)
    done, lines, errors = text(log(tmp_path, content), decoder=as_bytes)
    assert not done
    assert len(errors) == 1
    assert "exceed" in errors[0]
    assert lines[-1].endswith("payload: after")


def test_records_that_cannot_be_read_are_complained_of(tmp_path: Path) -> None:
    content = batches.build([Record(b"")], section=b"\x7f", count=1) + batches.simple("after", base_offset=1)
    done, lines, errors = text(log(tmp_path, content), decoder=as_bytes)
    assert (done, len(errors)) == (False, 1)
    assert lines[-1].endswith("payload: after")


def test_files_that_are_deleted_or_cleaned_are_shown_as_what_they_were(tmp_path: Path) -> None:
    for marker in (".deleted", ".cleaned", ".swap"):
        done, lines, errors = text(log(tmp_path, batches.simple("x"), f"{7:020}.log{marker}"))
        assert (done, errors) == (True, [])
        assert lines[1] == "Log starting offset: 7"
        assert lines[2].startswith("baseOffset: 0 ")


def test_what_is_not_there_or_not_known_is_told(tmp_path: Path) -> None:
    assert text(tmp_path / "none.log")[::2] == (
        False,
        [f"cannot read {tmp_path / 'none.log'}: No such file or directory"],
    )
    assert text(log(tmp_path, b"", "notes.txt"))[::2] == (True, [f"Ignoring unknown file {tmp_path / 'notes.txt'}"])
    assert not text(log(tmp_path, b"", "x.index"))[0]


def test_small_files_are_shown_an_entry_a_line(tmp_path: Path) -> None:
    contents = {
        "recovery-point-offset-checkpoint": ("0\n2\nt 0 5\nt 1 6\n", ["topic: t partition: 0 offset: 5",
                                                                     "topic: t partition: 1 offset: 6"]),
        "leader-epoch-checkpoint": ("0\n1\n3 9\n", ["epoch: 3 startOffset: 9"]),
        "partition.metadata": ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", ["topicId: AAAAAAAAAAAAAAAAAAAAAQ"]),
        "meta.properties": ("version=1\ncluster.id=c\nnode.id=3\n", ["clusterId: c nodeId: 3 directoryId: None"]),
        ".kafka_cleanshutdown": ('{"version":0,"brokerEpoch":4}', ["version: 0 brokerEpoch: 4"]),
    }  # fmt: skip
    for name, (content, expected) in contents.items():
        path = log(tmp_path, content.encode(), name)
        assert text(path) == (True, [f"Dumping {path}", *expected], [])
        path.write_bytes(b"\xff?")
        done, _, errors = text(path)
        assert (done, len(errors)) == (False, 1), name


def test_a_damaged_producer_snapshot_is_complained_of_as_by_the_reference(tmp_path: Path) -> None:
    done, lines, errors = text(log(tmp_path, b"\0\1\0\0\0\0\0\0\0\0", f"{5:020}.snapshot"))
    assert (done, len(lines), len(errors)) == (True, 1, 1)


def test_max_bytes_ends_at_a_whole_batch(tmp_path: Path) -> None:
    content = batches.simple("a") + batches.simple("b", base_offset=1)
    done, lines, _ = text(log(tmp_path, content), max_bytes=len(content) - 1)
    assert (done, len(lines)) == (True, 3)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xed\xa0\x80", "\ufffd"), (b"\xed\xa0", "\ufffd"), (b"\xed\xa0A", "\ufffdA"), (b"\xed", "\ufffd"),
        (b"\xed\x20", "\ufffd "), (b"\xe2\x82", "\ufffd"), (b"\xf0\x9f\x98", "\ufffd"), (b"\xff\xfe", "\ufffd\ufffd"),
        ("\u00fc\ud7ff\ue000".encode(), "\u00fc\ud7ff\ue000"),
    ],
)  # fmt: skip
def test_bytes_become_text_as_in_java(data: bytes, expected: str) -> None:
    assert java_text(data) == expected
