from collections.abc import Callable

import pytest

from config.views import LogConfig
from storage.log.partition_log import PartitionLog
from tests.sim.logs import TP


@pytest.fixture
def open_log(fs, clock, rng, tmp_path) -> Callable[..., PartitionLog]:
    """Open the one log of the test; every call is a restart."""

    def opener(*, clean: bool = False, **options) -> PartitionLog:
        names = {"recovery_point", "log_start_offset", "high_watermark", "topic_id", "stats"}
        given = {name: options.pop(name) for name in names & options.keys()}
        return PartitionLog.open(fs, clock, rng, str(tmp_path / "t-0"), TP, LogConfig(**options), clean=clean, **given)

    return opener


@pytest.fixture
def scheduled(open_log) -> Callable[..., PartitionLog]:
    """Open the log of the test as that of a scheduled topic."""

    def opener(**options) -> PartitionLog:
        return open_log(delivery_mode="scheduled", **options)

    return opener


@pytest.fixture
def reopened(scheduled) -> Callable[..., PartitionLog]:
    """Close the log in order and open it again: nothing is known of its sealed segments then."""

    def reopener(log: PartitionLog, **options) -> PartitionLog:
        log.close()
        return scheduled(clean=True, high_watermark=log.high_watermark, **options)

    return reopener
