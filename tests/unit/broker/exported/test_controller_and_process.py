"""What is exported of the cluster's metadata and of the process."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from broker.exported import process
from broker.version import VERSION
from tests.harness.exported import ExportedParts

CONTROLLER = "kafka_controller_kafkacontroller"


def test_the_cluster_is_counted_as_its_metadata_have_it(exported: ExportedParts) -> None:
    assert exported.value(f"{CONTROLLER}_activecontrollercount") == 1
    assert exported.value(f"{CONTROLLER}_activebrokercount") == len(exported.hosted.current.brokers)
    assert exported.value(f"{CONTROLLER}_fencedbrokercount") == 0
    assert exported.value(f"{CONTROLLER}_globaltopiccount") == 1
    assert exported.value(f"{CONTROLLER}_globalpartitioncount") == 2
    assert exported.value(f"{CONTROLLER}_offlinepartitionscount") == 0
    assert exported.value(f"{CONTROLLER}_preferredreplicaimbalancecount") == 0


@pytest.mark.parametrize(
    "name", ["replicamanager_underreplicatedpartitions", "replicamanager_underminisrpartitioncount"]
)
def test_one_broker_has_all_its_replicas(exported: ExportedParts, name: str) -> None:
    assert exported.value(f"kafka_server_{name}") == 0
    assert exported.value("kafka_server_replicamanager_atminisrpartitioncount") == 2
    assert exported.value("kafka_cluster_partition_replicascount", topic="t", partition="1") == 1
    assert exported.value("kafka_cluster_partition_underreplicated", topic="t", partition="1") == 0


def test_the_build_is_named(exported: ExportedParts) -> None:
    labels = {"version": VERSION, "python": platform.python_version()}
    values = [exported.value("odradek_build_info", form=form, **labels) for form in ("pure", "compiled")]
    assert values.count(1) == 1 and values.count(None) == 1


def test_the_idle_share_is_what_the_loop_has_not_computed(exported: ExportedParts) -> None:
    assert exported.value("odradek_event_loop_busy_ratio") == 0
    assert exported.value("kafka_network_socketserver_networkprocessoravgidle_percent") == 1
    assert exported.value("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") == 1


def test_what_the_kernel_counts_of_our_reads_and_writes_is_shown(
    exported: ExportedParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = tmp_path / "io"
    counted.write_text("rchar: 5\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n")
    monkeypatch.setattr(process, "OWN_IO", str(counted))
    assert exported.value("kafka_server_kafkaserver_linux_disk_read_bytes") == 4096
    assert exported.value("kafka_server_kafkaserver_linux_disk_write_bytes") == 8192
    counted.unlink()
    assert exported.value("kafka_server_kafkaserver_linux_disk_read_bytes") is None


def test_the_memory_that_may_be_used_is_no_more_than_there_is(exported: ExportedParts) -> None:
    limit = exported.value("odradek_memory_limit_bytes")
    assert limit is not None and 0 < limit <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
