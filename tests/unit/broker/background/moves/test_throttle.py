"""One limit that all moves share: long-run rate, smoothness, changes."""

import math

import pytest

from broker.background.moves.throttle import MIN_PIECE_BYTES, PIECE_SECONDS, Throttle
from config.views import LONG_MAX

MIB = 1 << 20
SECOND = 1_000_000_000


def run(
    throttle: Throttle, total: int, *, chunk: int = MIB, step_ns: int = 0, late_ns: int = 0
) -> list[tuple[int, int]]:
    """Move so many bytes in pieces that take a while each, waking up late; return (time, bytes) of each."""
    now, moved, pieces = 0, 0, []
    while moved < total:
        wait = throttle.wait_seconds(now)
        if wait:
            now += math.ceil(wait * SECOND) + late_ns
            continue
        size = throttle.piece_bytes(chunk)
        now += step_ns
        throttle.note(size, now)
        moved += size
        pieces.append((now, size))
    return pieces


def test_a_mebibyte_a_second_moves_five_in_four_seconds_at_least():
    pieces = run(Throttle(MIB), 5 * MIB)
    assert 4 * SECOND <= pieces[-1][0] <= 5.2 * SECOND


@pytest.mark.parametrize("limit", [100_000, MIB, 20 * MIB, 500 * MIB])
@pytest.mark.parametrize(("step_ns", "late_ns"), [(0, 0), (1_000_000, 1_500_000), (30_000_000, 0)])
def test_the_rate_is_the_limit_whatever_a_piece_takes_and_however_late_it_begins(limit, step_ns, late_ns):
    if limit * step_ns / SECOND > MIB:
        return  # slower than the limit by itself
    pieces = run(Throttle(limit), 10 * limit, step_ns=step_ns, late_ns=late_ns)
    rate = sum(size for _, size in pieces) * SECOND / pieces[-1][0]
    assert rate == pytest.approx(limit, rel=0.05)


@pytest.mark.parametrize("limit", [100_000, 20 * MIB])
def test_no_second_gets_more_than_its_share(limit):
    pieces = run(Throttle(limit), 5 * limit, late_ns=2_000_000)
    for start, _ in pieces:
        within = sum(size for time, size in pieces if start <= time < start + SECOND)
        assert within <= 1.2 * limit
    assert max(size for _, size in pieces) <= max(limit * PIECE_SECONDS, MIN_PIECE_BYTES)


def test_a_limit_of_nothing_lets_one_piece_pass():
    throttle = Throttle(0)
    assert throttle.wait_seconds(0) == 0.0
    throttle.note(throttle.piece_bytes(MIB), 0)
    assert throttle.wait_seconds(1000 * SECOND) == math.inf


def test_without_a_limit_nobody_waits_and_nothing_is_owed_later():
    throttle = Throttle()
    throttle.note(1 << 50, 0)
    assert (throttle.wait_seconds(0), throttle.piece_bytes(7 * MIB)) == (0.0, 7 * MIB)
    throttle.set_limit(1000, 1)
    assert throttle.wait_seconds(1) == 0.0


def test_a_change_holds_for_what_is_owed_already():
    throttle = Throttle(1000)
    throttle.note(10_000, 0)
    assert throttle.wait_seconds(0) == 10.0
    throttle.set_limit(5000, SECOND)
    assert throttle.wait_seconds(SECOND) == pytest.approx(9000 / 5000)
    throttle.set_limit(0, SECOND)
    assert throttle.wait_seconds(5 * SECOND) == math.inf
    throttle.set_limit(LONG_MAX, 5 * SECOND)
    assert throttle.wait_seconds(5 * SECOND) == 0.0


def test_idle_time_is_not_saved_up():
    throttle = Throttle(1000)
    assert throttle.wait_seconds(3600 * SECOND) == 0.0
    throttle.note(1000, 3600 * SECOND)
    assert throttle.wait_seconds(3600 * SECOND) == pytest.approx(0.9)
