"""dump-log and verify on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.cli import main
from broker.cli.verify import CANNOT_VERIFY
from storage.env.posix import PosixFileSystem
from tests.harness import batches

TIME = 1_700_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of a partition with two batches and whole indexes."""
    path = tmp_path / "topic-0"
    path.mkdir()
    content = batches.simple("a", timestamp=TIME) + batches.simple("b", base_offset=1, timestamp=TIME + 1)
    (path / f"{0:020}.log").write_bytes(content)
    (path / f"{0:020}.index").touch()
    (path / f"{0:020}.timeindex").write_bytes((TIME + 1).to_bytes(8, "big") + b"\0\0\0\1")
    return path


def segment(folder: Path) -> Path:
    return folder / f"{0:020}.log"


def test_files_are_dumped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--files", f"{segment(folder)},{segment(folder).with_suffix('.timeindex')}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Dumping {segment(folder)}"
    assert lines[-1] == f"timestamp: {TIME + 1} offset: 1"


@pytest.mark.parametrize("option", ["--print-data-log", "--value-decoder-class", "--key-decoder-class"])
def test_contents_are_shown_where_wanted(folder: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--files", str(segment(folder)), option]) == 0
    assert capsys.readouterr().out.count(" payload: ") == 2


def test_json_is_an_object_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump-log", "--json", "--deep-iteration", "--files", str(segment(folder))]) == 0
    types = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert types == ["file", "batch", "record", "batch", "record"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--remote-log-metadata-decoder"],
        ["--share-group-state-decoder"],
        ["--value-decoder-class", "org.example.Mine"],
        ["--max-bytes", "many"],
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--files", str(segment(folder)), *arguments] if arguments else []
    assert main(["dump-log", *given]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1


def test_a_clean_log_has_no_faults(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(folder)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"1 logs, 1 segments, 2 batches, 2 records, {segment(folder).stat().st_size} bytes in ")
    assert line.endswith(": 0 faults, 0 notes")


def test_a_fault_is_a_line_and_a_status(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(segment(folder).read_bytes())
    content[-1] ^= 1
    segment(folder).write_bytes(content)
    assert main(["verify", str(folder)]) == 1
    line, summary = capsys.readouterr().out.splitlines()
    assert line.startswith(f"fault: {segment(folder)}:{len(content) // 2}: wrong CRC [batch-crc]; at a start: ")
    assert summary.endswith(": 1 faults, 0 notes")


def test_a_directory_in_use_is_refused_unless_forced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = PosixFileSystem().lock(str(folder.parent / ".lock"))
    assert main(["verify", str(folder.parent)]) == CANNOT_VERIFY
    assert "is in use by a broker" in capsys.readouterr().err
    assert main(["verify", str(folder)]) == CANNOT_VERIFY
    assert main(["verify", "--force", str(folder)]) == 0
    lock.release()


def test_several_processes_find_the_same_as_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1, 6):
        copy = folder.with_name(f"topic-{number}")
        copy.mkdir()
        for path in folder.iterdir():
            (copy / path.name).write_bytes(path.read_bytes()[: -number if path.suffix == ".log" else None])
    said = []
    for jobs in ("1", "3"):
        assert main(["verify", "--json", "--jobs", jobs, str(folder.parent)]) == 1
        *found, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        del summary["seconds"]
        said.append((found, summary))
    assert said[0] == said[1]
    assert [row["kind"] for row in said[0][0]] == ["identity"] + ["batch-torn"] * 5


def test_other_topics_are_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = folder.with_name("other-0")
    other.mkdir()
    (other / f"{0:020}.log").write_bytes(b"\xff" * 100)
    (folder.parent / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (folder.parent / ".kafka_cleanshutdown").write_text("{}")
    assert main(["verify", "--topic", "topic", str(folder.parent)]) == 0
    assert main(["verify", str(folder.parent)]) == 1
    capsys.readouterr()


def test_what_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "none")]) == CANNOT_VERIFY
    assert capsys.readouterr().err == f"odradek: cannot read {tmp_path / 'none'}: No such file or directory\n"


@pytest.mark.parametrize("arguments", [[], ["--jobs", "many", "here"], ["--no-such-option", "here"]])
def test_a_command_line_that_is_not_understood_is_no_fault(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *arguments]) == CANNOT_VERIFY
    assert "see `odradek verify --help`" in capsys.readouterr().err
