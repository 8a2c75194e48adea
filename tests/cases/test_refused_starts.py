"""A start that is refused leaves the directories as they were, for whoever puts right what was wrong."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.metadata.framing import data_batch
from protocol.stored.cluster import FeatureLevelRecord
from storage.segment.names import SNAPSHOT_SUFFIX
from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerFactory, BrokerProcess, reference_wanted
from tests.harness.raw import RawClient

pytestmark = pytest.mark.skipif(reference_wanted(), reason="what Kafka changes is its own affair")

REFUSED_WITHIN_S = 15
METADATA = "__cluster_metadata-0"
FIRST_LOG = f"{0:020}.log"
LATER_LEVEL = 99

Changed = dict[str, str]
"""Settings that the refused start has beside the others."""


def of_zookeeper(home: Path) -> Changed:
    """Leave what a broker of Kafka before KRaft has: no metadata, and an identity without directory.id."""
    shutil.rmtree(home / METADATA)
    (home / "bootstrap.checkpoint").unlink()
    identity = dict(line.split("=") for line in (home / "meta.properties").read_text().split())
    lines = ["#", "version=0", f"broker.id={identity['node.id']}", f"cluster.id={identity['cluster.id']}", ""]
    (home / "meta.properties").write_text("\n".join(lines))
    return {}


def without_metadata(home: Path) -> Changed:
    shutil.rmtree(home / METADATA)
    return {}


def with_an_empty_metadata_log(home: Path) -> Changed:
    (home / METADATA / FIRST_LOG).unlink()
    return {}


def with_damaged_metadata(home: Path) -> Changed:
    path = home / METADATA / FIRST_LOG
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    return {}


def of_a_later_version(home: Path) -> Changed:
    """Raise the metadata.version as a broker that is newer does, and stop it."""
    (snapshot,) = (home / METADATA).glob(f"*{SNAPSHOT_SUFFIX}")
    end_offset = int(snapshot.stem)
    record = FeatureLevelRecord(name="metadata.version", feature_level=LATER_LEVEL)
    with (home / METADATA / FIRST_LOG).open("ab") as log:
        log.write(data_batch([record], level=30, base_offset=end_offset, epoch=1, timestamp_ms=1))
    snapshot.rename(snapshot.with_name(f"{end_offset + 1:020}{SNAPSHOT_SUFFIX}"))
    return {}


def of_another_node(home: Path) -> Changed:
    return {"node.id": "7"}


def with_a_log_twice(home: Path) -> Changed:
    """Add an older disk of the broker, which has no directory.id yet, with a copy of a log."""
    older = home.with_name("older")
    shutil.copytree(home / "t-0", older / "t-0")
    lines = (home / "meta.properties").read_text().splitlines(keepends=True)
    (older / "meta.properties").write_text("".join(line for line in lines if not line.startswith("directory.id")))
    return {"log.dirs": f"{home},{older}", "metadata.log.dir": str(home)}


def content(root: Path) -> dict[str, bytes]:
    """Return what every file holds; locks mean nothing."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != ".lock"}


@contextmanager
def taken_port() -> Iterator[Changed]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield {"listeners": f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"}


REFUSED: dict[str, Callable[[Path], Changed]] = {
    "knows of no topic": of_zookeeper,
    "is new and knows": without_metadata,
    "holds no records": with_an_empty_metadata_log,
    "is damaged at byte": with_damaged_metadata,
    f"metadata.version {LATER_LEVEL}": of_a_later_version,
    "belongs to node.id 1": of_another_node,
    "Duplicate log directories": with_a_log_twice,
}


def check_refusal(broker: BrokerProcess, root: Path, changes: Changed, words: str) -> None:
    before, own = content(root), dict(broker.properties)
    broker.properties |= changes
    broker.launch()
    assert broker.wait(timeout_s=REFUSED_WITHIN_S) == 1
    assert words in broker.log_text()
    after = content(root)
    assert {path for path in before | after if before.get(path) != after.get(path)} == set(), words
    broker.properties = own
    broker.log_path.write_text("")  # the refusal was wanted


def test_a_refused_start_changes_nothing(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    root = tmp_path / "disks"
    home = root / "home"
    broker = broker_factory({"log.dirs": str(home)})
    with RawClient(address(broker)) as client:
        client.create_topic("t")
        client.produce("t", batches.simple("kept"))
    broker.stop()
    saved = tmp_path / "saved"
    shutil.copytree(root, saved)
    for words, change in REFUSED.items():
        check_refusal(broker, root, change(home), words)
        shutil.rmtree(root)
        shutil.copytree(saved, root)
    with taken_port() as changes:
        check_refusal(broker, root, changes, "cannot bind")
    broker.start()
    assert "clean=True" in broker.log_text(), "what a refused start found closed is closed for the next one"
