"""Messages between the broker and its cleaner processes: cut anywhere, and what is none is refused."""

from __future__ import annotations

import pytest

from broker.background.cleaner.pipe import (
    MAX_MESSAGE_BYTES,
    BrokenPipeline,
    Clean,
    Failed,
    Fault,
    SetRate,
    Unpacker,
    pack,
)

MESSAGES = [Clean(("task", 1), float("inf")), SetRate(5.5), Failed(Fault.DISK, "EIO", "trace")]


def test_messages_arrive_whole_wherever_the_bytes_are_cut() -> None:
    data = b"".join(map(pack, MESSAGES))
    whole, bytewise = Unpacker(), Unpacker()
    assert list(whole.feed(data)) == MESSAGES
    assert [message for at in range(len(data)) for message in bytewise.feed(data[at : at + 1])] == MESSAGES


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(BrokenPipeline):
        list(Unpacker().feed((MAX_MESSAGE_BYTES + 1).to_bytes(4, "big")))
    with pytest.raises(BrokenPipeline):
        list(Unpacker().feed(b"\0\0\0\5hello"))
