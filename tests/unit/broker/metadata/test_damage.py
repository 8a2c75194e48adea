"""A metadata log that lost what was committed is refused; one that a crash has torn is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.metadata.controller.topics import NewTopic
from broker.metadata.damage import ensure_not_lost, ensure_whole
from broker.metadata.errors import CorruptMetadata
from storage.env.posix import PosixFileSystem
from tests.unit.broker.conftest import Node

FS = PosixFileSystem()


@pytest.fixture
async def log_path(node: Node) -> Path:
    """Give the partition directory of a log with three topics, closed."""
    controller = await node.start()
    for name in ("a", "b", "c"):
        await controller.create_topics([NewTopic(name, 1, 1)])
    await controller.close()
    return node.log_path


def segment(log_path: Path) -> Path:
    return log_path / "00000000000000000000.log"


async def test_a_whole_log_passes(log_path: Path) -> None:
    assert ensure_whole(FS, str(log_path))


@pytest.mark.parametrize("position", [70, 300, 16, 8])
async def test_a_flipped_byte_before_good_batches_is_refused_and_named(log_path: Path, position: int) -> None:
    data = bytearray(segment(log_path).read_bytes())
    data[position] ^= 0x40
    segment(log_path).write_bytes(data)
    with pytest.raises(CorruptMetadata, match=r"00000000000000000000\.log is damaged at byte \d+"):
        ensure_whole(FS, str(log_path))


@pytest.mark.parametrize("tail", [b"", b"\0" * 500, b"\x01" * 100])
async def test_a_torn_end_is_a_crash_and_no_damage(log_path: Path, tail: bytes) -> None:
    data = segment(log_path).read_bytes()
    segment(log_path).write_bytes(data[:-10] + tail)
    ensure_whole(FS, str(log_path))


async def test_an_emptied_log_is_refused_once_there_was_something_in_it(log_path: Path) -> None:
    segment(log_path).write_bytes(b"")
    assert not ensure_whole(FS, str(log_path))
    with pytest.raises(CorruptMetadata, match="holds no records"):
        ensure_not_lost(FS, str(log_path), has_logs=True)
    # In the first epoch, and without any topic's log, it is a first start that was cut short.
    ensure_not_lost(FS, str(log_path), has_logs=False)
    FS.unlink(str(log_path / "quorum-state"))
    ensure_not_lost(FS, str(log_path), has_logs=False)
    with pytest.raises(CorruptMetadata, match="knows of no topic"):
        ensure_not_lost(FS, str(log_path), has_logs=True)


async def test_a_log_that_is_gone_is_refused_in_a_later_epoch(node: Node, log_path: Path) -> None:
    controller = await node.start()
    await controller.close()
    FS.unlink(str(segment(log_path)))
    with pytest.raises(CorruptMetadata, match="epoch 2"):
        ensure_whole(FS, str(log_path))
