"""Text to value and back, with Kafka's refusals."""

from __future__ import annotations

import pytest

from config.errors import InvalidConfig
from config.key import ConfigType, format_value, parse_value
from config.keys import BROKER_KEYS, TOPIC_KEYS

NOT_NUMBERS = ["", "abc", "1.5", "1_000", "0x10", "1e3", "--1", "\u0663"]


@pytest.mark.parametrize(
    ("config_type", "text", "value"),
    [
        (ConfigType.INT, " 42 ", 42),
        (ConfigType.INT, "+7", 7),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.DOUBLE, "1e-3", 0.001),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "a,,b", ("a", "", "b")),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_text_becomes_value(config_type, text, value):
    assert parse_value("k", config_type, text) == value


@pytest.mark.parametrize("text", [*NOT_NUMBERS, "2147483648", "-2147483649", "9" * 30])
def test_not_an_int(text):
    with pytest.raises(InvalidConfig) as refusal:
        parse_value("some.key", ConfigType.INT, text)
    assert refusal.value.message == f"Invalid value {text} for configuration some.key: Not a number of type INT"


@pytest.mark.parametrize("text", ["", "NaN", "inf", "Infinity", "x", "1_0.0"])
def test_not_a_double(text):
    with pytest.raises(InvalidConfig, match="Not a number of type DOUBLE"):
        parse_value("k", ConfigType.DOUBLE, text)


def test_not_a_boolean():
    with pytest.raises(InvalidConfig) as refusal:
        parse_value("k", ConfigType.BOOLEAN, "yes")
    assert refusal.value.message == "Invalid value yes for configuration k: Expected value to be either true or false"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (1e10, "1.0E10") if repr(1e10) != "10000000000.0" else (1e22, "1.0E22"),
        (5, "5"),
    ],
)
def test_value_becomes_text(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            "min.cleanable.dirty.ratio",
            "2",
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "cleanup.policy",
            "delete,foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "compression.type",
            "none",
            "Invalid value none for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "segment.bytes",
            "1048575",
            "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576",
        ),
    ],
)
def test_refusals_read_as_kafkas(name, text, message):
    with pytest.raises(InvalidConfig) as refusal:
        TOPIC_KEYS[name].parse(text)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("cleanup.policy", ["", "delete", "compact", "compact,delete", "delete, compact"]),
        ("compression.gzip.level", ["-1", "1", "9"]),
        ("compression.lz4.level", ["1", "17"]),
        ("compression.zstd.level", ["-131072", "22"]),
        ("leader.replication.throttled.replicas", ["", "*", "0:1", "0:1,1:2"]),
        ("retention.ms", ["-1", "0", "9223372036854775807"]),
        ("retention.bytes", ["-5", "0"]),
        ("segment.bytes", ["1048576", "2147483647"]),
        ("internal.segment.bytes", ["14"]),
    ],
)
def test_edges_that_are_legal(name, texts):
    for text in texts:
        TOPIC_KEYS[name].parse(text)


@pytest.mark.parametrize("text", ["none", "*,0:1", "a", "0:", "0:1:2"])
def test_throttled_replicas_are_pairs_or_a_star(text):
    with pytest.raises(InvalidConfig, match=r"leader\.replication\.throttled\.replicas"):
        TOPIC_KEYS["leader.replication.throttled.replicas"].parse(text)


@pytest.mark.parametrize("text", ["A:TLS", "A", "A:SSL;B:SSL", ":SSL"])
def test_protocol_map_takes_known_protocols_only(text):
    with pytest.raises(InvalidConfig, match=r"listener\.security\.protocol\.map"):
        BROKER_KEYS["listener.security.protocol.map"].parse(text)


def test_words_may_ignore_case():
    assert BROKER_KEYS["group.consumer.migration.policy"].parse("Upgrade") == "Upgrade"
    with pytest.raises(InvalidConfig, match="case insensitive"):
        BROKER_KEYS["group.consumer.migration.policy"].parse("sideways")


def test_canonical_spelling():
    assert TOPIC_KEYS["preallocate"].canonical(" TRUE ") == "true"
    assert TOPIC_KEYS["message.timestamp.type"].canonical(" LogAppendTime ") == "LogAppendTime"
