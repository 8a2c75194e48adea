"""A directory with pending records fails: they are late and not lost, and what is elsewhere comes in time."""

from __future__ import annotations

import time

import pytest

from tests.faults.rig import TOPIC, Rig
from tests.harness import batches
from tests.harness.raw import eventually

FLUSHED = {"log.flush.interval.messages": "1", "odradek.log.delivery.clock.uncertainty.ms": "50"}
DELAY_MS = 1500


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize(("fault", "mend"), [("fill", "free"), ("power_off", "repair")])
def test_what_is_pending_in_a_directory_that_fails_comes_when_it_is_back(rig: Rig, fault: str, mend: str) -> None:
    lost = rig.start_filled(FLUSHED, count=3, delivery_mode="scheduled")
    due_ms = now_ms() + DELAY_MS
    pending = batches.build([batches.Record(b"pending", timestamp=due_ms)])
    offsets = {index: rig.client.append(TOPIC, pending, index) for index in rig.writers}
    getattr(rig.disk, fault)()
    lost[0].send_until_refused(rig.client)
    eventually(lambda: rig.leaderless() == {writer.partition for writer in lost})
    for writer in rig.on(rig.good):
        end_offset = rig.client.end_offset(TOPIC, writer.partition)
        assert end_offset == offsets[writer.partition] or now_ms() >= due_ms
        eventually(lambda index=writer.partition: rig.client.end_offset(TOPIC, index) == offsets[index] + 1)
        assert now_ms() >= due_ms
    rig.stop()
    getattr(rig.disk, mend)()
    rig.broker.start()
    rig.connect()
    for index, offset in offsets.items():
        eventually(lambda index=index: rig.client.list_offset(TOPIC, -1, index).error_code == 0)
        found = batches.records_of(rig.client.fetch_all(TOPIC, index))
        assert [record.value for record in found if record.offset == offset] == [b"pending"]
