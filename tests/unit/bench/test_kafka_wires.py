"""Requests of the raw loads are patched in place, and their answers read by position: both as the protocol has them."""

import struct

import pytest

from tests.bench.kafka.wires import FETCH_VERSION, TailReader, check_produced
from tests.bench.members import frame
from tests.harness.raw import fetch_row, fetch_values

TOPIC = "tail"
SESSION = 77


def _request(offset: int, session_id: int, epoch: int) -> bytes:
    values = fetch_values(
        [{"topic": TOPIC, "partitions": [fetch_row(0, offset)]}],
        version=FETCH_VERSION,
        max_wait_ms=500,
        session_id=session_id,
        session_epoch=epoch,
        forgotten_topics_data=[],
        rack_id="",
    )
    return frame("fetch", FETCH_VERSION, **values)


def _answer(*, error: int = 0, partition_error: int = 0, high_watermark: int | None = None) -> bytes:
    head = struct.pack(">iihi", 0, 0, error, SESSION)
    if high_watermark is None:
        return head + struct.pack(">i", 0)
    row = struct.pack(">ihqqqiii", 0, partition_error, high_watermark, high_watermark, 0, -1, -1, 0)
    return head + struct.pack(">ih", 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">i", 1) + row


def test_a_reader_goes_on_in_its_session_from_where_it_is() -> None:
    reader = TailReader(TOPIC, 5, 500)
    assert reader.next_request() == _request(5, 0, 0)
    assert reader.take(_answer(high_watermark=8)) == 3
    assert reader.next_request() == _request(8, SESSION, 1)
    assert reader.take(_answer()) == 0
    assert reader.next_request() == _request(8, SESSION, 2)


@pytest.mark.parametrize("answer", [_answer(error=70), _answer(partition_error=3, high_watermark=8)])
def test_an_error_in_a_fetch_is_no_delivery(answer: bytes) -> None:
    with pytest.raises(RuntimeError, match="answered with error"):
        TailReader(TOPIC, 5, 500).take(answer)


@pytest.mark.parametrize("error", [0, 3])
def test_an_error_of_a_produce_is_seen(error: int) -> None:
    row = struct.pack(">ihqqq", 0, error, 9, -1, 0) + b"\x01\x00\x00"
    answer = struct.pack(">iB", 0, 0) + b"\x02\x05tail\x02" + row + b"\x00" + struct.pack(">i", 0) + b"\x00"
    if not error:
        check_produced(answer)
        return
    with pytest.raises(RuntimeError, match="error 3"):
        check_produced(answer)
