"""Which logs the cleaner stays away from, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.background.cleaner.trouble import JITTER, LONGEST_WAIT_MS, Troubles
from config.views import LogConfig
from storage.env.clock import SeededRng
from storage.log.partition_log import PartitionLog
from tests.harness.hosted import Hosted

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    hosted = Hosted(tmp_path)
    yield hosted
    hosted.logs.close(clean=False)


@pytest.fixture
def log(hosted: Hosted) -> PartitionLog:
    return hosted.create("t", config=COMPACT).log


@pytest.fixture
def troubles() -> Troubles:
    return Troubles(SeededRng(3))


def test_an_uncleanable_log_is_left_alone_until_its_policy_changes(troubles: Troubles, log: PartitionLog) -> None:
    troubles.mark_uncleanable(log, "bad batch")
    log.config = replace(log.config, retention_ms=5)
    assert troubles.keeps_from(log, 0)
    assert [one.reason for one in troubles.uncleanable] == ["bad batch"]
    log.config = replace(log.config, cleanup_policy=frozenset({"compact", "delete"}))
    assert not troubles.keeps_from(log, 0)
    assert not troubles.uncleanable


def test_a_mark_goes_with_the_log_and_with_the_policy_also_where_nobody_asks(
    troubles: Troubles, hosted: Hosted, log: PartitionLog
) -> None:
    other = hosted.create("u", config=COMPACT).log
    for one in (log, other):
        troubles.mark_uncleanable(one, "bad batch")
    troubles.forget_all_but([log, other])
    assert len(troubles.uncleanable) == 2
    troubles.forget_all_but([other])
    assert [one.log for one in troubles.uncleanable] == [other]
    other.config = LogConfig()
    troubles.forget_all_but([other])
    assert not troubles.uncleanable


def test_a_log_made_anew_has_no_mark_of_the_one_before(troubles: Troubles, hosted: Hosted, log: PartitionLog) -> None:
    troubles.mark_uncleanable(log, "bad batch")
    troubles.delay(hosted.create("u", config=COMPACT).log, 0, 1_000)
    for name in ("t", "u"):
        hosted.delete(name)
        assert not troubles.keeps_from(hosted.create(name, incarnation=2, config=COMPACT).log, 0)


def test_the_wait_doubles_up_to_a_bound_less_a_share_of_chance(troubles: Troubles, log: PartitionLog) -> None:
    waits = [troubles.delay(log, 0, 15_000) for _ in range(8)]
    for wait_ms, full_ms in zip(waits, [15_000, 30_000, 60_000, 120_000, 240_000, 480_000], strict=False):
        assert full_ms * (1 - JITTER) <= wait_ms <= full_ms
    assert all(LONGEST_WAIT_MS * (1 - JITTER) <= wait_ms <= LONGEST_WAIT_MS for wait_ms in waits[6:])
    assert len(set(waits[6:])) == 2


def test_a_log_that_failed_is_tried_again_after_the_wait_and_a_success_makes_it_short_again(
    troubles: Troubles, log: PartitionLog
) -> None:
    first_ms = troubles.delay(log, 1_000, 1_000)
    assert troubles.next_retry_ms() == 1_000 + first_ms
    assert troubles.keeps_from(log, 1_000 + first_ms - 1)
    assert not troubles.keeps_from(log, 1_000 + first_ms)
    assert troubles.delay(log, 0, 1_000) > first_ms
    troubles.succeeded(log.tp)
    assert troubles.next_retry_ms() is None
    assert troubles.delay(log, 0, 1_000) <= 1_000


def test_without_a_backoff_there_still_is_a_wait(troubles: Troubles, log: PartitionLog) -> None:
    assert troubles.delay(log, 0, 0) >= 1_000 * (1 - JITTER)
