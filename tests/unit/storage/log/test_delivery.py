import pytest

from storage.errors import InvalidTimestamp
from tests.sim.logs import NOW, append

E = 250


@pytest.fixture
def scheduled(open_log):
    """Open the log of the test as that of a scheduled topic."""

    def opener(**options):
        return open_log(delivery_mode="scheduled", **options)

    return opener


def test_a_batch_is_released_when_its_time_and_the_uncertainty_have_passed(scheduled):
    log = scheduled()
    append(log, timestamp=NOW + 1000)
    assert (log.delivery.watermark, log.delivery.pending_timestamp) == (0, NOW + 1000)
    assert not log.delivery.advance(NOW + 1249)
    assert log.delivery.watermark == 0
    assert log.delivery.advance(NOW + 1250)
    assert (log.delivery.watermark, log.delivery.pending_timestamp) == (1, None)
    assert log.high_watermark == log.log_end_offset == 1


def test_a_batch_that_is_due_is_released_by_its_append(scheduled):
    log = scheduled()
    append(log, timestamp=NOW - E)
    append(log, timestamp=0)
    append(log, timestamp=-1)
    assert log.delivery.watermark == 3


def test_what_is_due_behind_a_pending_batch_waits_for_it(scheduled):
    log = scheduled()
    append(log, timestamp=NOW + 10_000)
    append(log, timestamp=0)
    assert not log.delivery.advance(NOW + 10_249)
    assert log.delivery.advance(NOW + 10_250)
    assert log.delivery.watermark == 2


def test_a_delay_above_the_limit_is_refused_and_one_at_it_is_not(scheduled):
    log = scheduled(delivery_max_delay_ms=1000)
    append(log, timestamp=NOW + 1000)
    with pytest.raises(InvalidTimestamp, match=r"1001 ms from now; delivery\.max\.delay\.ms allows 1000"):
        append(log, timestamp=NOW + 1001)
    assert log.log_end_offset == 1


def test_a_schedule_that_goes_backwards_is_refused_where_it_must_not(scheduled):
    log = scheduled(delivery_schedule_monotonic=True)
    append(log, timestamp=NOW + 100)
    append(log, timestamp=NOW + 100)
    with pytest.raises(InvalidTimestamp, match=r"delivery\.schedule\.monotonic"):
        append(log, timestamp=NOW + 99)
    assert log.log_end_offset == 2
