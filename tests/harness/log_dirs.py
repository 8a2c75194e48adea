"""Several log directories: where the logs are over the wire and on disk, moves between them, their throttle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.admin import BROKER, DELETE, SET, change_configs
from tests.harness.broker import BrokerProcess
from tests.harness.raw import RawClient, eventually
from tests.harness.wire import Struct

UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR, LOG_DIR_NOT_FOUND = 3, 17, 56, 57
REPLICA_NOT_AVAILABLE = 9
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


class Placed(NamedTuple):
    """A log in a directory."""

    size: int
    lag: int
    is_future: bool


def describe(
    client: RawClient, topics: Mapping[str, Sequence[int]] | None = None, *, version: int = 4
) -> dict[str, Struct]:
    """Describe the directories by their paths; each must be there once."""
    asked = None if topics is None else [{"topic": name, "partitions": list(of)} for name, of in topics.items()]
    answer = client.request("describe_log_dirs", version, topics=asked)
    if version >= 3:
        assert answer.error_code == 0, answer
    found = {result.log_dir: result for result in answer.results}
    assert len(found) == len(answer.results), answer.results
    return found


def logs_in(result: Struct) -> dict[tuple[str, int], Placed]:
    """Give the logs that a directory's description lists; no log twice, no topic without one."""
    rows = [(topic.name, row) for topic in result.topics for row in topic.partitions]
    assert all(topic.partitions for topic in result.topics), result
    found = {
        (name, row.partition_index): Placed(row.partition_size, row.offset_lag, row.is_future_key) for name, row in rows
    }
    assert len(found) == len(rows), result
    return found


def places(client: RawClient, topic: str, partition: int = 0) -> dict[str, Placed]:
    """Give the directories that list a partition."""
    described = describe(client, {topic: [partition]})
    found = {path: logs_in(result).get((topic, partition)) for path, result in described.items()}
    return {path: placed for path, placed in found.items() if placed is not None}


def alter(
    client: RawClient, wanted: Sequence[tuple[str | Path, Mapping[str, Sequence[int]]]], *, version: int = 2
) -> dict[tuple[str, int], int]:
    """Ask for moves, (path, {topic: partitions}); give the error code of each partition."""
    dirs = [
        {"path": str(path), "topics": [{"name": name, "partitions": list(of)} for name, of in topics.items()]}
        for path, topics in wanted
    ]
    answer = client.request("alter_replica_log_dirs", version, dirs=dirs)
    rows = [(topic.topic_name, row) for topic in answer.results for row in topic.partitions]
    found = {(name, row.partition_index): row.error_code for name, row in rows}
    assert len(found) == len(rows), answer
    return found


def move(client: RawClient, path: str | Path, topic: str, partition: int = 0) -> int:
    """Ask for one move; give its error code."""
    [code] = alter(client, [(path, {topic: [partition]})]).values()
    return code


def create_in(client: RawClient, topic: str, *directories: Path, **configs: str) -> None:
    """Create a topic whose partitions lie in these directories, in their order."""
    for partition, directory in enumerate(directories):
        assert move(client, directory, topic, partition) == UNKNOWN_TOPIC_OR_PARTITION
    client.create_topic(topic, len(directories), **configs)
    for partition, directory in enumerate(directories):
        assert list(places(client, topic, partition)) == [str(directory)]


def throttle(client: RawClient, bytes_per_second: int | None, *, node: str = "1") -> None:
    """Bound what all moves of the broker copy together; None takes the bound away."""
    change = (THROTTLE, DELETE, None) if bytes_per_second is None else (THROTTLE, SET, str(bytes_per_second))
    result = change_configs(client, node, [change], kind=BROKER)
    assert result.error_code == 0, result


def future_in(client: RawClient, path: str | Path, topic: str, partition: int = 0) -> Placed | None:
    """Give the future log in a directory, if it is listed there."""
    placed = places(client, topic, partition).get(str(path))
    return placed if placed is not None and placed.is_future else None


def wait_until_only_in(
    client: RawClient, path: str | Path, topic: str, partition: int = 0, *, within_s: float = 60
) -> None:
    """Wait until this directory alone lists the partition, and not as a future log."""

    def is_there() -> bool:
        found = places(client, topic, partition)
        return list(found) == [str(path)] and not found[str(path)].is_future

    eventually(is_there, within_s=within_s, what=f"{topic}-{partition} only in {path}")


def folders(directory: Path, topic: str, partition: int = 0) -> list[str]:
    """List what a directory holds of a partition, deleted and future logs among it."""
    name = f"{topic}-{partition}"
    return sorted(
        entry.name for entry in directory.iterdir() if entry.name == name or entry.name.startswith(f"{name}.")
    )


def future_folders(directory: Path, topic: str, partition: int = 0) -> list[str]:
    return [name for name in folders(directory, topic, partition) if name.endswith("-future")]


def checkpointed_in(directory: Path, topic: str, partition: int = 0) -> dict[str, int]:
    """Give what each checkpoint file of a directory says of a partition, where it does."""
    found = {}
    for name in CHECKPOINTS:
        path = directory / name
        for row in path.read_text().splitlines()[2:] if path.exists() else []:
            of, number, offset = row.split()
            if (of, int(number)) == (topic, partition):
                assert name not in found, f"{path}: {topic}-{partition} is there twice"
                found[name] = int(offset)
    return found


def stored_size(directory: Path, folder: str) -> int:
    """Sum up the segments of a log on disk."""
    return sum(path.stat().st_size for path in (directory / folder).glob("*.log"))


def tree(directory: Path, suffix: str = "") -> dict[str, Any]:
    """Give every file below a directory with its content, to see that nothing was touched."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob(f"*{suffix}"))
    }


def new_directories(place: Path, count: int) -> list[Path]:
    """Name directories that do not exist yet."""
    return [place / f"disk-{number}" for number in range(count)]


def log_dirs(*directories: Path) -> dict[str, str]:
    """Give the property that names the directories; what the metadata is in comes first."""
    return {"log.dirs": ",".join(map(os.fspath, directories))}


def wait_for_leaders(broker: BrokerProcess, topic: str, partitions: int = 1) -> None:
    """Wait until a start has gone as far as to lead these partitions."""
    with RawClient((broker.host, broker.port)) as client:
        client.wait_for_topic(topic, partitions)
