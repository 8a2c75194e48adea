"""What Kafka's performance tools print is read strictly: a number is right or it is a failure."""

import pytest

from tests.bench.kafka.tools import Consumed, ToolFailed, parse_consumed, parse_produced

STEADY = (
    "850 steady state records sent, 42500.0 records/sec (41.50 MB/sec), 3.10 ms avg latency, 9.00 ms max latency, "
    "3 ms 50th, 5 ms 95th, 7 ms 99th, 9 ms 99.9th.\n"
)
TOTAL = (
    "1000 records sent, 10000.5 records/sec (9.77 MB/sec), 12.00 ms avg latency, 200.00 ms max latency, "
    "4 ms 50th, 50 ms 95th, 100 ms 99th, 200 ms 99.9th.\n"
)
WINDOW = "400 records sent, 80.0 records/sec (0.08 MB/sec), 1.0 ms avg latency, 2.0 ms max latency.\n"
CONSUMED = (
    "2026-01-01 00:00:00:000, 2026-01-01 00:00:01:000, 0.9766, 0.9766, 1000, 1000.0, 100, 900, 1.0851, 1111.1111\n"
)


def test_the_steady_state_counts_where_there_was_a_warm_up() -> None:
    produced = parse_produced(WINDOW + STEADY + TOTAL, count=1000, warm_up=150)
    assert produced == (850, 42500.0, 3.1, 3.0, 7.0)


def test_all_records_count_where_there_was_none() -> None:
    assert parse_produced(WINDOW + TOTAL, count=1000, warm_up=0) == (1000, 10000.5, 12.0, 4.0, 100.0)


def test_a_record_that_was_not_acknowledged_is_a_failure() -> None:
    with pytest.raises(ToolFailed, match="1000 of 1001"):
        parse_produced(STEADY + TOTAL, count=1001, warm_up=150)


@pytest.mark.parametrize("text", ["", WINDOW, TOTAL], ids=["nothing", "a window", "no steady state"])
def test_a_missing_summary_is_a_failure(text: str) -> None:
    with pytest.raises(ToolFailed, match="no summary"):
        parse_produced(text, count=1000, warm_up=150)


def test_a_consumer_is_timed_since_its_partitions_were_assigned() -> None:
    assert parse_consumed(CONSUMED, count=1000) == [Consumed(1000, 1111.1111)]


def test_each_of_several_consumers_is_read() -> None:
    assert len(parse_consumed(CONSUMED * 3, count=1000)) == 3


@pytest.mark.parametrize("count", [999, 1001])
def test_a_consumer_that_read_less_or_more_is_a_failure(count: int) -> None:
    with pytest.raises(ToolFailed, match=f"1000 of {count}"):
        parse_consumed(CONSUMED, count=count)


def test_a_header_or_a_warning_is_no_summary() -> None:
    with pytest.raises(ToolFailed):
        parse_consumed("WARNING: Exiting before consuming the expected number of messages\n", count=1000)
