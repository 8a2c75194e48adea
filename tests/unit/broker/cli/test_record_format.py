"""How records are written."""

from __future__ import annotations

import json
import struct

import pytest

from broker.cli.errors import CommandError
from broker.cli.record_format import TextFormat, UnreadableRecord, json_format
from broker.client.cluster import TopicPartition
from broker.client.fetching import Consumed
from protocol.records.batch import TimestampType
from protocol.records.record import Record

HEADERS = (("a", b"1"), ("b", None))
PARTITION = TopicPartition("topic", 3)


def consumed(
    key: bytes | None = b"k", value: bytes | None = b"v", headers: tuple[tuple[str, bytes | None], ...] = HEADERS
) -> Consumed:
    return Consumed(PARTITION, Record(7, 1000, key, value, headers), TimestampType.CREATE_TIME, 4)


def everything(**others: str) -> dict[str, str]:
    names = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key")
    return {**{f"print.{name}": "true" for name in names}, **others}


def test_the_value_is_what_is_written_if_nothing_else_is_asked_for():
    assert TextFormat({})(consumed()) == b"v\n"


def test_all_columns_come_in_kafkas_order():
    assert (
        TextFormat(everything())(consumed())
        == b"CreateTime:1000\tPartition:3\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:4\ta:1,b:null\tk\tv\n"
    )


def test_separators_and_the_word_for_nothing_are_chosen():
    properties = {"key.separator": "|", "line.separator": ";", "headers.separator": "&", "null.literal": "-"}
    line = TextFormat({"print.key": "TRUE", "print.headers": "true", **properties})(consumed(value=None))
    assert line == b"a:1&b:-|k|-;"


def test_the_value_can_be_left_out_and_then_everything():
    assert TextFormat({"print.value": "false", "print.key": "true"})(consumed()) == b"k\n"
    assert TextFormat({"print.value": "false"})(consumed()) == b""


def test_a_record_without_headers_or_time_says_so():
    bare = Consumed(PARTITION, Record(0, -1, None, b"v"), TimestampType.CREATE_TIME, 4)
    line = TextFormat({"print.headers": "true", "print.timestamp": "true"})(bare)
    assert line == b"NO_TIMESTAMP\tNO_HEADERS\tv\n"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("org.apache.kafka.common.serialization.LongDeserializer", struct.pack(">q", -5), b"-5"),
        ("IntegerDeserializer", struct.pack(">i", 5), b"5"),
        ("ShortDeserializer", struct.pack(">h", 5), b"5"),
        ("DoubleDeserializer", struct.pack(">d", 0.5), b"0.5"),
        ("BooleanDeserializer", b"\x01", b"true"),
        ("StringDeserializer", b"text", b"text"),
    ],
)
def test_deserializers_of_kafka_read_numbers(name: str, data: bytes, text: bytes):
    assert TextFormat({"value.deserializer": name})(consumed(value=data)) == text + b"\n"


def test_what_a_deserializer_cannot_read_is_told():
    with pytest.raises(UnreadableRecord, match="8"):
        TextFormat({"value.deserializer": "LongDeserializer"})(consumed(value=b"four"))


def test_an_unknown_deserializer_is_refused():
    with pytest.raises(CommandError, match=r"com\.example\.Mine"):
        TextFormat({"key.deserializer": "com.example.Mine"})


def test_json_has_everything_and_bytes_that_are_no_text_in_base64():
    facts = json.loads(json_format(consumed(key=b"\xff", value=None)))
    assert facts == {
        "topic": "topic",
        "partition": 3,
        "offset": 7,
        "timestamp": 1000,
        "timestampType": "CreateTime",
        "leaderEpoch": 4,
        "key": {"base64": "/w=="},
        "value": None,
        "headers": [["a", "1"], ["b", None]],
    }
