import pytest

from storage.segment.names import parse_partition_dir, parse_segment_file, segment_file, suffixed_dir
from storage.types import TopicPartition

HEX = "0a" * 16


def test_segment_files_round_trip():
    assert segment_file(123, ".log") == "00000000000000000123.log"
    assert parse_segment_file("00000000000000000123.timeindex.swap") == (123, ".timeindex", ".swap")
    for name in ("123.log", "00000000000000000123.txt", "99999999999999999999.log", "00000000000000000123.log.tmp"):
        assert parse_segment_file(name) is None


@pytest.mark.parametrize("marker", ["-delete", "-future", "-stray"])
def test_suffixed_directories_keep_dashes_and_dots_of_the_topic(marker):
    tp = TopicPartition("my.topic-1_a", 10)
    assert suffixed_dir(tp, HEX, marker) == f"my.topic-1_a-10.{HEX}{marker}"
    assert parse_partition_dir(suffixed_dir(tp, HEX, marker)) == (tp, marker)


def test_long_topics_are_cut_so_that_the_name_stays_legal():
    name = suffixed_dir(TopicPartition("x" * 249, 123), HEX, "-delete")
    assert len(name) == 255
    assert parse_partition_dir(name).marker == "-delete"


@pytest.mark.parametrize(
    "name", ["lost+found", "other", ".snapshot", "a_b", "t-", "-1", "t-01", "..-1", "t-99999999999", "t-x"]
)
def test_foreign_directories_are_recognised(name):
    assert parse_partition_dir(name) is None


def test_partitions_are_split_at_the_last_dash():
    assert parse_partition_dir("my-topic-1-0") == (TopicPartition("my-topic-1", 0), "")
    assert parse_partition_dir("__consumer_offsets-49") == (TopicPartition("__consumer_offsets", 49), "")
