"""CONF-03, CONF-07 and CONF-08: changing configs, the units of retention, no delay before deletion."""

import os
import time
from pathlib import Path

import pytest

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.admin import (
    DEFAULT_SOURCE,
    DELETE,
    SET,
    STATIC_BROKER_SOURCE,
    TOPIC_SOURCE,
    alter_configs,
    change_configs,
    described,
)
from tests.harness.batches import Record
from tests.harness.broker import BrokerProcess
from tests.harness.disk import START, folder
from tests.harness.raw import RawClient, eventually

INVALID_CONFIG, INVALID_REQUEST = 40, 42


def test_conf_03_alter_configs_replaces_and_a_default_may_be_an_override(
    broker: BrokerProcess, client: RawClient, fresh
) -> None:
    topic = fresh()
    client.create_topic(topic, compression_type="gzip", flush_ms="100")
    keys = ("compression.type", "flush.ms", "cleanup.policy", "retention.ms")

    def changed(**wanted: tuple[str, int]) -> bool:
        """Tell whether these are the only overrides: configs apply after the answer, within moments."""
        found = described(client, topic, *keys)
        overrides = {key.replace(".", "_"): row for key, row in found.items() if row[1] == TOPIC_SOURCE}
        return overrides == wanted

    assert alter_configs(client, topic, {"compression.type": "gzip"}).error_code == 0
    gzip = ("gzip", TOPIC_SOURCE)
    eventually(lambda: changed(compression_type=gzip), what="the replacement")
    assert described(client, topic, "flush.ms")["flush.ms"] == (str(2**63 - 1), DEFAULT_SOURCE)

    assert change_configs(client, topic, [("cleanup.policy", SET, "delete")]).error_code == 0
    eventually(lambda: changed(compression_type=gzip, cleanup_policy=("delete", TOPIC_SOURCE)), what="the default set")
    assert change_configs(client, topic, [("cleanup.policy", DELETE, None)]).error_code == 0
    eventually(lambda: changed(compression_type=gzip), what="the override removed")
    assert described(client, topic, "cleanup.policy")["cleanup.policy"] == ("delete", DEFAULT_SOURCE)

    assert change_configs(client, topic, [("retention.ms", SET, "abc")]).error_code == INVALID_CONFIG
    two = [("retention.ms", SET, "abc"), ("flush.ms", SET, "5")]
    assert change_configs(client, topic, two).error_code == INVALID_CONFIG
    twice = [("retention.ms", SET, "1000"), ("retention.ms", SET, "2000")]
    assert change_configs(client, topic, twice).error_code in (INVALID_CONFIG, INVALID_REQUEST)
    dry = change_configs(client, topic, [("retention.ms", SET, "9000000")], validate_only=True)
    assert dry.error_code == 0
    assert change_configs(client, topic, [("flush.ms", SET, "777")]).error_code == 0
    after = {"compression_type": gzip, "flush_ms": ("777", TOPIC_SOURCE)}
    eventually(lambda: changed(**after), what="the last change")

    # It applies without a restart: what is appended from now on has the codec.
    assert change_configs(client, topic, [("compression.type", SET, "lz4")]).error_code == 0
    after["compression_type"] = ("lz4", TOPIC_SOURCE)
    eventually(lambda: changed(**after), what="another codec")
    client.append(topic, batches.simple("v"))
    [stored] = batches.parse(client.fetch_all(topic))
    assert stored.codec == batches.LZ4

    broker.restart()
    with RawClient(address(broker)) as later:
        later.wait_for_topic(topic, 1)
        found = described(later, topic, *keys)
        overrides = {key for key, row in found.items() if row[1] == TOPIC_SOURCE}
        assert overrides == {"compression.type", "flush.ms"}
        assert found["flush.ms"] == ("777", TOPIC_SOURCE)


HOURS, MINUTES, MS = "log.retention.hours", "log.retention.minutes", "log.retention.ms"
UNITS = {
    "hours": ({HOURS: "1", "log.roll.hours": "2"}, "3600000", "7200000"),
    "minutes before hours": ({HOURS: "168", MINUTES: "10", "log.roll.hours": "3"}, "600000", "10800000"),
    "ms before minutes": (
        {HOURS: "168", MINUTES: "10", MS: "60000", "log.roll.hours": "168", "log.roll.ms": "5000"},
        "60000",
        "5000",
    ),
    "unlimited": ({MS: "-1", "log.roll.ms": "7000"}, "-1", "7000"),
}


@pytest.mark.parametrize("units", UNITS)
def test_conf_07_units_and_precedence_of_retention(broker_factory, units: str) -> None:
    properties, retention, roll = UNITS[units]
    broker: BrokerProcess = broker_factory(properties)
    with RawClient(address(broker)) as client:
        client.create_topic("plain")
        client.create_topic("own", retention_ms="1234567", segment_ms="7654321")
        plain, own = (described(client, topic, "retention.ms", "segment.ms") for topic in ("plain", "own"))
        assert (plain["retention.ms"][0], plain["segment.ms"][0]) == (retention, roll)
        assert {source for _, source in plain.values()} <= {STATIC_BROKER_SOURCE, DEFAULT_SOURCE}
        assert own == {"retention.ms": ("1234567", TOPIC_SOURCE), "segment.ms": ("7654321", TOPIC_SOURCE)}


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_conf_08_no_delay_before_deletion(broker_factory, is_reference: bool) -> None:
    properties = {
        "log.segment.delete.delay.ms": "0",
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "100",
    }
    broker: BrokerProcess = broker_factory(properties)
    with RawClient(address(broker)) as client:
        for number in range(3):
            doomed = f"doomed-{number}"
            client.create_topic(doomed, 2)
            client.append(doomed, batches.simple("v"), 1)
            client.delete_topic(doomed)

        def left() -> list[str]:
            return [name for name in os.listdir(broker.data_directory) if name.startswith("doomed")]

        eventually(lambda: not left(), what="the directories of deleted topics gone")

        client.create_topic("aged", segment_ms="1", retention_ms="1000")
        for number in range(20):
            client.append("aged", batches.build([Record(b"v", timestamp=START + number * 10)]))
        eventually(lambda: client.start_offset("aged") == 20, what="all expired")
        eventually(lambda: len(os.listdir(folder(broker, "aged"))) < 7, what="their files gone")
        assert not list(folder(broker, "aged").glob("*.deleted"))

        client.create_topic("rolling", segment_ms="1", retention_ms="-1")
        for number in range(100):
            assert client.append("rolling", batches.build([Record(b"v", timestamp=START + number // 2 * 10)])) == number
        logs = sorted(int(path.stem) for path in folder(broker, "rolling").glob("*.log"))
        assert logs == list(range(0, 100, 2))
        if not is_reference:  # a JVM warms up for longer than it is watched here
            before, begun = _cpu_s(broker.pid), time.monotonic()
            eventually(lambda: time.monotonic() - begun > 1, what="a second of doing nothing")
            assert _cpu_s(broker.pid) - before < 0.5
    begun = time.monotonic()
    assert broker.stop() in (0, 143)
    assert time.monotonic() - begun < 10
