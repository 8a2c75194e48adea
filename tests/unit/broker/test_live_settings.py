"""Settings of the broker that reach rooms which keep a copy of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.live_settings import LiveSettings
from broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage, Delta
from broker.metadata.live_config import LiveConfig
from config.resolve import Resolver
from config.sources import SourcedValue
from config.views import MetricsConfig, MoveConfig
from storage.errors import StorageFailure
from tests.harness.hosted import NODE_ID, Hosted

CORDONED = "cordoned.log.dirs"


class Rig:
    """Two directories, a and b, and a static configuration that names them."""

    def __init__(self, directory: Path, **static: str) -> None:
        self.a, self.b = str(directory / "a"), str(directory / "b")
        self.hosted = Hosted(Path(self.a), Path(self.b))
        self.logs = self.hosted.logs
        self.limits: list[Any] = []
        values = {"log.dirs": f"{self.a},{self.b}"} | {key.replace("_", "."): text for key, text in static.items()}
        live = LiveConfig(Resolver({key: SourcedValue(text, "test") for key, text in values.items()}), NODE_ID)
        self.recovery = SimpleNamespace(thread_count=0)
        listeners = SimpleNamespace(limit=self.limits.append)
        self.moves: list[MoveConfig] = []
        moves = SimpleNamespace(reconfigure=self.moves.append)
        self.settings = LiveSettings(
            live, self.logs, cast("Any", self.recovery), cast("Any", listeners), cast("Any", moves), MetricsConfig()
        )

    def image(self, **values: str) -> ClusterImage:
        """Return an image in which this broker has these dynamic values."""
        configs = {key.replace("_", "."): text for key, text in values.items()}
        return ClusterImage("c", configs={(BROKER_RESOURCE, str(NODE_ID)): configs})


@pytest.fixture
def rig(tmp_path: Path):
    rig = Rig(tmp_path)
    yield rig
    rig.logs.close(clean=False)


def test_a_change_of_the_broker_reaches_the_rooms(rig: Rig) -> None:
    image = rig.image(
        cordoned_log_dirs=rig.a,
        max_connections="7",
        num_recovery_threads_per_data_dir="3",
        replica_alter_log_dirs_io_max_bytes_per_second="1000",
        odradek_metrics_families="jmx",
        odradek_metrics_per_partition="false",
    )
    rig.settings.publish(Delta(changed_configs=frozenset({(TOPIC_RESOURCE, "t")})), image)
    assert (rig.logs.cordoned, rig.limits) == (frozenset(), [])
    rig.settings.publish(Delta(changed_configs=frozenset({(BROKER_RESOURCE, str(NODE_ID))})), image)
    assert rig.logs.cordoned == {rig.a}
    assert rig.recovery.thread_count == 3
    assert [limits.max_connections for limits in rig.limits] == [7]
    assert [config.max_bytes_per_second for config in rig.moves] == [1000]
    assert rig.settings.metrics == MetricsConfig(("jmx",), per_partition=False)


def test_room_is_left_while_a_directory_that_works_is_not_cordoned(rig: Rig) -> None:
    takes = rig.settings.takes_replicas
    assert takes(rig.image())
    assert takes(rig.image(cordoned_log_dirs=rig.a))
    assert not takes(rig.image(cordoned_log_dirs="*"))
    rig.hosted.manager.fail_dir_of(StorageFailure("I/O error", rig.b))
    assert not takes(rig.image(cordoned_log_dirs=rig.a))
    assert takes(rig.image(cordoned_log_dirs=rig.b))


def test_an_image_is_judged_before_it_is_public(tmp_path: Path) -> None:
    """Commands are planned on it."""
    rig = Rig(tmp_path, cordoned_log_dirs="*")
    rig.settings.apply(rig.image())
    assert rig.logs.cordoned == {rig.a, rig.b}
    assert not rig.settings.takes_replicas(rig.image())
    assert rig.settings.takes_replicas(rig.image(cordoned_log_dirs=""))
    assert rig.logs.cordoned == {rig.a, rig.b}
    rig.logs.close(clean=False)


def test_a_topic_whose_schedule_the_configuration_excludes_by_now_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of properties is not held against the topics before it counts."""
    rig = Rig(tmp_path, log_cleanup_policy="compact")
    topics = {
        (TOPIC_RESOURCE, name): {"delivery.mode": mode} for name, mode in (("t", "scheduled"), ("u", "immediate"))
    }
    image = ClusterImage("c", configs=topics)
    rig.settings.apply(image)
    rig.settings.apply(image)
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == ["Topic t stays scheduled"]
    rig.settings.apply(ClusterImage("c"))
    rig.settings.apply(image)
    assert len(caplog.records) == 2, "it has been in order meanwhile"
    rig.logs.close(clean=False)
