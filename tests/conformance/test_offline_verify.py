"""odradek verify finds what was planted in a copy of log directories, and nothing in those a broker has left."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.cli import main
from tests.harness.planting import FAULTS, Fault, files, folder, starts

FLIPS = 80
CUTS = 60


def verify(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    """Run it; return the exit status and what it says, the summary last."""
    status = main(["verify", "--json", "--jobs", "1", *map(str, arguments)])
    printed = capsys.readouterr()
    assert not printed.err
    said = [json.loads(line) for line in printed.out.splitlines()]
    # Files of what was deleted go later, if nobody stops the broker before.
    return status, [row for row in said if row.get("kind") != "leftover"]


def disks(root: Path) -> list[Path]:
    return sorted(root.glob("disk-*"))


@pytest.fixture
def copy(our_files: Path, tmp_path: Path) -> Path:
    """Give a copy that may be damaged."""
    for disk in disks(our_files):
        shutil.copytree(disk, tmp_path / disk.name)
    return tmp_path


def test_nothing_is_wrong_with_what_we_leave(our_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = verify(capsys, *disks(our_files))
    assert (status, said[:-1]) == (0, [])
    assert said[-1]["logs"] > 10
    assert said[-1]["records"] > 1000


@pytest.mark.jvm
def test_nothing_is_wrong_with_what_the_reference_leaves(their_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = verify(capsys, *disks(their_files))
    assert (status, said[:-1]) == (0, [])


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_is_found(fault: Fault, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = fault.plant(copy)
    status, said = verify(capsys, *disks(copy))
    assert [(row["kind"], row["path"]) for row in said if row["type"] == "fault"] == [(fault.kind, str(path))], said
    assert status == 1


def test_any_bit_that_flips_in_a_log_is_found(
    our_files: Path, tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("codecs-0", "transactional-0", "compacted-0"):
        copied = tmp_path / name
        shutil.copytree(folder(our_files, name), copied)
        for _ in range(FLIPS // 3):
            path = rng.choice(sorted(path for path in copied.glob("*.log") if path.stat().st_size))
            content = path.read_bytes()
            # A compacted log has gaps, so an offset or a length that no checksum covers may be as good as another.
            place = rng.randrange(len(content)) if name != "compacted-0" else rng.choice(starts(content)) + 30
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            status, said = verify(capsys, copied)
            assert status == 1, (path, place, said)
            path.write_bytes(content)


def test_files_that_are_cut_or_damaged_never_end_it(
    our_files: Path, tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "copy"
    shutil.copytree(our_files, root)
    every = sorted(path for path in root.glob("disk-*/**/*") if path.is_file())
    for number in range(CUTS):
        path = rng.choice(every)
        content = path.read_bytes()
        if number % 2:
            path.write_bytes(content[: rng.randrange(len(content) + 1)])
        else:
            damaged = bytearray(content) or bytearray(8)
            for _ in range(3):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            path.write_bytes(damaged)
        main(["verify", "--jobs", "1", *map(str, disks(root))])
        main(["dump-log", "--print-data-log", "--files", str(path)])
        assert "Traceback" not in capsys.readouterr().err
        path.write_bytes(content)


def test_what_an_unclean_stop_leaves_is_a_note(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for disk in disks(copy):
        (disk / ".kafka_cleanshutdown").unlink()
        (disk / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    torn = files(copy, "codecs-0", ".log")[-1]
    torn.write_bytes(torn.read_bytes()[:-7])
    index = files(copy, "spread-0", ".timeindex")[-1]
    index.write_bytes(index.read_bytes() + bytes(1200))
    status, said = verify(capsys, *disks(copy))
    assert status == 0
    assert [(row["type"], row["kind"], row["path"]) for row in said[:-1]] == [("note", "batch-torn", str(torn))]
