"""How late released batches were: each that was seen to be pending is told once, at its release or by a count."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from storage.errors import LogClosed
from storage.log import delivery, lateness_count
from storage.log.partition_log import PartitionLog
from tests.sim.logs import NOW, append, append_marker, batch, known

E = 250
SIZE = len(batch())


class Told:
    """How late how many batches were, by what a log says of itself and by counts."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.late: Counter[int] = Counter()
        log._state.stats.on_activated = lambda lateness_ms: self.note(lateness_ms, 1)

    def note(self, lateness_ms: int, count: int) -> None:
        self.late[lateness_ms] += count

    def count(self) -> int:
        """Count all that was released and is not counted; return how many counts that took."""
        counts = 0
        while (count := self.log.delivery.plan_count()) is not None:
            counts += 1
            left = count.run(self.note)
            if left is not None:
                self.log.delivery.count_later(left)
        assert not self.log.delivery.has_uncounted
        return counts


def release(log: PartitionLog, now_ms: int, *, by_search: bool = False) -> None:
    """Advance, and search if need be, until all is known."""
    log.delivery.advance(now_ms)
    while log.delivery.is_behind:
        if by_search and (search := log.delivery.plan_search(now_ms)) is not None:
            log.delivery.take(search, search.run())
        log.delivery.advance(now_ms)


@pytest.mark.parametrize("by_search", [False, True], ids=["by advances", "by a search"])
def test_each_batch_of_a_long_release_is_told_once(scheduled: Callable[..., PartitionLog], by_search: bool) -> None:
    log = scheduled(segment_bytes=100 * SIZE, index_interval_bytes=1 << 30)
    told = Told(log)
    for delay in [1000, *[400] * 1200, *[-E] * 10, *[1000] * 300, 9000, *[500] * 20]:
        append(log, timestamp=NOW + delay)
    release(log, NOW + 1260, by_search=by_search)
    assert known(log) == (1511, NOW + 9000)
    assert 0 < told.late.total() < 1000
    told.count()
    assert told.late == {10: 301, 610: 1200}, "ten were due when the first began to wait; what follows is not released"


@pytest.mark.pure  # a constant of a compiled module is written into its code
@pytest.mark.parametrize("seed", range(8))
def test_what_is_told_does_not_depend_on_how_it_was_released(
    scheduled: Callable[..., PartitionLog], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    def life(by_search: bool) -> Counter[int]:
        rng = random.Random(seed)
        log = scheduled(segment_bytes=10 * SIZE)
        log.truncate_to(0)
        told, now_ms = Told(log), NOW
        for _ in range(30):
            for _ in range(rng.randrange(12)):
                append(log, timestamp=now_ms + rng.choice([-E, 0, 100, 2000, rng.randrange(-500, 3000)]))
            now_ms += rng.randrange(600)
            release(log, now_ms, by_search=by_search)
            if rng.randrange(2):
                told.count()
        told.count()
        log.close()
        return told.late

    plain = life(False)
    assert plain
    monkeypatch.setattr(delivery, "MAX_STEPS", 9)
    monkeypatch.setattr(delivery, "MEASURED_STEPS", 4)
    monkeypatch.setattr(lateness_count, "MAX_STEPS", 20)
    monkeypatch.setattr(lateness_count, "_CHUNK_STEPS", 12)
    monkeypatch.setattr(lateness_count, "MAX_SEGMENTS", 1)
    assert life(False) == life(True) == plain


def test_markers_are_not_counted(scheduled: Callable[..., PartitionLog]) -> None:
    log = scheduled()
    told = Told(log)
    for number in range(400):
        sent = batch(
            1, timestamp=NOW + 5000, producer_id=7, producer_epoch=0, base_sequence=number, is_transactional=True
        )
        log.append(sent, leader_epoch=0)
        append_marker(log, 7, is_abort=False)
    release(log, NOW + 5000 + E)
    told.count()
    assert told.late == {0: 400}


def test_what_a_start_finds_due_was_not_waited_for(scheduled: Callable[..., PartitionLog]) -> None:
    log = scheduled()
    for _ in range(600):
        append(log, timestamp=NOW + 1000)
    log.close()
    log = scheduled(clean=True, high_watermark=600)
    told = Told(log)
    release(log, NOW + 5000, by_search=True)
    assert known(log) == (600, None) and not told.count() and not told.late


@pytest.mark.pure  # a constant of a compiled module is written into its code
def test_what_nobody_gets_to_does_not_pile_up(
    scheduled: Callable[..., PartitionLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_UNCOUNTED", 2)
    log = scheduled()
    told = Told(log)
    for number in range(4):
        for _ in range(300):
            append(log, timestamp=NOW + number)
        release(log, NOW + number + E)
    measured = told.late.total()
    assert told.count() == 2 and told.late.total() == measured + 2 * (300 - measured // 4)


def test_what_was_deleted_or_cut_meanwhile_is_left_out(scheduled: Callable[..., PartitionLog]) -> None:
    log = scheduled(segment_bytes=100 * SIZE)
    told = Told(log)
    for _ in range(1000):
        append(log, timestamp=NOW + 1000)
    release(log, NOW + 1000 + E)
    measured = told.late.total()
    log.increment_log_start_offset(measured + 50)
    log.truncate_to(900)
    told.count()
    assert told.late == {0: measured + 900 - (measured + 50)}


def test_a_log_that_was_closed_has_nothing_to_count(scheduled: Callable[..., PartitionLog], fs) -> None:
    log = scheduled()
    for _ in range(600):
        append(log, timestamp=NOW + 1000)
    release(log, NOW + 1000 + E)
    count = log.delivery.plan_count()
    log.close()
    assert log.delivery.plan_count() is None
    fs.rename(log.path, log.path + "-gone")
    with pytest.raises(LogClosed):
        count.run(lambda lateness_ms, batches: None)
