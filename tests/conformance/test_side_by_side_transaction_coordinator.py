"""The transaction coordinator asked by raw requests, here and in Apache Kafka: same codes, epochs, stored records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from broker.coordinator.transaction.records import parse_key, parse_value
from tests.harness.broker import BrokerProcess
from tests.harness.pair import Pair
from tests.harness.raw import RawClient, eventually
from tests.harness.stored import stored_batches
from tests.harness.transacting import NOT_NOW, RawProducer
from tests.harness.wire import Struct

pytestmark = pytest.mark.jvm

CONCURRENT_TRANSACTIONS = 51
STATE_TOPIC = "__transaction_state"


def _settled(ask: Callable[[], Struct]) -> Struct:
    """Ask until the answer is about the request and not about what is still under way."""

    def answer() -> Struct | None:
        found = ask()
        return None if found.error_code in NOT_NOW else found

    return eventually(answer, what="an answer")


def _init(client: RawClient, name: str, version: int, **fields: Any) -> Struct:
    values = {"transactional_id": name, "transaction_timeout_ms": 60_000, **fields}
    if version >= 3:
        values = {"producer_id": -1, "producer_epoch": -1, **values}
    return _settled(lambda: client.request("init_producer_id", version, **values))


def _end(client: RawClient, name: str, version: int, producer: tuple[int, int], *, commit: bool) -> Struct:
    return _settled(
        lambda: client.request(
            "end_txn",
            version,
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
    )


def _add(
    client: RawClient, name: str, version: int, producer: tuple[int, int], topics: Mapping[str, list[int]], **more: Any
) -> list[tuple[str, int, int]]:
    asked = [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()]
    if version < 4:
        answer = client.request(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=asked,
        )
        results = answer.results_by_topic_v3_and_below
    else:
        one = {
            "transactional_id": name,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "verify_only": False,
            "topics": asked,
            **more,
        }
        answer = client.request("add_partitions_to_txn", version, transactions=[one])
        results = answer.results_by_transaction[0].topic_results
    return sorted(
        (topic.name, row.partition_index, row.partition_error_code)
        for topic in results
        for row in topic.results_by_partition
    )


def _ready(client: RawClient, topic: str) -> None:
    if topic not in client.topic_names():
        client.create_topic(topic, 2)
    RawProducer(client, f"{topic}-warm").init()


@pytest.mark.parametrize("version", range(6))
def test_producers_are_initialized(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        _ready(client, unique)
        first = _init(client, unique, version)
        seen: list[Any] = [(first.error_code, first.producer_epoch)]

        def note(answer: Struct) -> None:
            moved = answer.producer_id - first.producer_id if answer.producer_id >= 0 else None
            seen.append((answer.error_code, moved, answer.producer_epoch))

        for timeout_ms in (0, -1, 900_001, 900_000):
            note(_init(client, unique, version, transaction_timeout_ms=timeout_ms))
        note(_init(client, "", version))
        if version >= 3:
            mine = {"producer_id": first.producer_id, "producer_epoch": 1}
            for fields in (
                {"producer_id": 5},
                {"producer_epoch": 5},
                mine,
                mine,
                {**mine, "producer_epoch": 2},
                {**mine, "producer_epoch": 0},
                {**mine, "producer_epoch": 9},
                {**mine, "producer_id": first.producer_id + 7_777},
            ):
                note(_init(client, unique, version, **fields))
        # Over an open transaction: it is aborted first.
        current = _init(client, unique, version)
        producer = (current.producer_id, current.producer_epoch)
        seen.append(_add(client, unique, 3, producer, {unique: [0]}))
        at_once = client.request(
            "init_producer_id",
            version,
            transactional_id=unique,
            transaction_timeout_ms=60_000,
            **({"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}),
        )
        seen.append((at_once.error_code, at_once.producer_id, at_once.producer_epoch))
        note(_init(client, unique, version))
        return seen

    pair.same(run)


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        _ready(client, unique)
        found = _init(client, unique, 4)
        good, stale, other = (
            (found.producer_id, found.producer_epoch),
            (found.producer_id, found.producer_epoch + 1),
            (found.producer_id + 7_777, found.producer_epoch),
        )
        seen = [
            _add(client, unique, version, good, {unique: [0], "missing": [0]}),
            _add(client, unique, version, good, {unique: [0, 2]}),
            _add(client, unique, version, stale, {unique: [0, 1]}),
            _add(client, unique, version, other, {unique: [0]}),
            _add(client, "nobody-" + unique, version, good, {unique: [0]}),
            _add(client, "", version, good, {unique: [0]}),
            _add(client, unique, version, good, {unique: [0]}),
            _add(client, unique, version, good, {unique: [0, 1]}),
            _add(client, unique, version, good, {unique: [1]}),
        ]
        if version >= 4:
            seen += [
                _add(client, unique, version, good, {unique: [0, 1]}, verify_only=True),
                _add(client, unique, version, stale, {unique: [0]}, verify_only=True),
                _add(client, unique, version, other, {unique: [0]}, verify_only=True),
                _add(client, "", version, good, {unique: [0]}, verify_only=True),
            ]
        seen.append([(_end(client, unique, 4, good, commit=True).error_code, 0, 0)])
        return seen

    pair.same(run)


@pytest.mark.parametrize("version", range(5))
def test_offsets_are_added(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        _ready(client, unique)
        found = _init(client, unique, 4)

        def add(name: str, producer_id: int, epoch: int) -> int:
            fields = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch, "group_id": unique}
            return _settled(lambda: client.request("add_offsets_to_txn", version, **fields)).error_code

        return [
            add(unique, found.producer_id, found.producer_epoch),
            add(unique, found.producer_id, found.producer_epoch),
            add(unique, found.producer_id, found.producer_epoch + 1),
            add(unique, found.producer_id + 7_777, found.producer_epoch),
            add("nobody-" + unique, found.producer_id, found.producer_epoch),
            add("", found.producer_id, found.producer_epoch),
        ]

    pair.same(run)


@pytest.mark.parametrize("version", range(6))
def test_transactions_are_ended(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        _ready(client, unique)
        found = _init(client, unique, 4)
        first_id = found.producer_id
        seen: list[Any] = []
        current = [first_id, found.producer_epoch]

        def end(*, commit: bool, back: int = 0, pid: int = 0) -> None:
            answer = _end(client, unique, version, (current[0] + pid, current[1] - back), commit=commit)
            if version < 5:
                seen.append(answer.error_code)
            else:
                moved = answer.producer_id - first_id if answer.producer_id >= 0 else None
                seen.append((answer.error_code, moved, answer.producer_epoch))
                if answer.error_code == 0:
                    current[1] = answer.producer_epoch

        def begin() -> None:
            seen.append(_settled_add(client, unique, (current[0], current[1])))

        for commit in (True, False):  # nothing has begun
            end(commit=commit, back=1)
            end(commit=commit)
        for outcome in (True, False):
            begin()
            end(commit=outcome, back=1)
            end(commit=outcome, back=-1)
            end(commit=outcome, pid=7_777)
            end(commit=outcome)
            for commit in (True, False):
                end(commit=commit, back=1)
                end(commit=commit, back=2)
                end(commit=commit, back=-1)
                end(commit=commit, pid=7_777)
            end(commit=not outcome)
            end(commit=outcome)
        seen.append(_end(client, "nobody-" + unique, version, (1, 1), commit=True).error_code)
        seen.append(_end(client, "", version, (1, 1), commit=True).error_code)
        return seen

    pair.same(run)


def _settled_add(client: RawClient, topic: str, producer: tuple[int, int]) -> list[tuple[str, int, int]]:
    def ask() -> list[tuple[str, int, int]] | None:
        codes = _add(client, topic, 3, producer, {topic: [0]})
        return None if codes[0][2] == CONCURRENT_TRANSACTIONS else codes

    return eventually(ask, what="partition added")


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_described_and_listed(pair: Pair, unique: str, version: int) -> None:
    def run(_: BrokerProcess, client: RawClient) -> Any:
        _ready(client, unique)
        names = [f"{unique}-{number}" for number in range(4)]
        first = None
        for number, name in enumerate(names):
            found = _init(client, name, 4)
            producer = (found.producer_id, found.producer_epoch)
            first = found.producer_id if first is None else first
            if number:
                _add(client, name, 3, producer, {unique: [0, 1]})
            if number >= 2:
                _end(client, name, 4, producer, commit=number == 2)
        assert first is not None

        def describe() -> list[Any] | None:
            answer = client.request("describe_transactions", 0, transactional_ids=[*names, f"{unique}-none", ""])
            rows = [
                (
                    row.error_code,
                    row.transactional_id[len(unique) :],
                    row.transaction_state,
                    row.transaction_timeout_ms,
                    row.transaction_start_time_ms > 0,
                    row.producer_epoch,
                    sorted((topic.topic == unique, sorted(topic.partitions)) for topic in row.topics),
                )
                for row in answer.transaction_states
            ]
            return None if any(row[2].startswith("Prepare") for row in rows) else rows

        def listed(**filters: Any) -> Any:
            fields = {"state_filters": [], "producer_id_filters": [], **filters}
            if version >= 1:
                fields.setdefault("duration_filter", -1)
            if version >= 2:
                fields.setdefault("transactional_id_pattern", None)
            answer = client.request("list_transactions", version, **fields)
            rows = sorted(
                (row.transactional_id[len(unique) :], row.producer_id - first, row.transaction_state)
                for row in answer.transaction_states
                if row.transactional_id.startswith(f"{unique}-") and not row.transactional_id.endswith("warm")
            )
            return answer.error_code, sorted(answer.unknown_state_filters), rows

        seen = [
            eventually(describe, what="completed transactions"),
            listed(),
            listed(state_filters=["Ongoing"]),
            listed(state_filters=["Empty", "CompleteAbort", "nonsense", "Dead"]),
            listed(state_filters=["nonsense"]),
            listed(producer_id_filters=[first, first + 1]),
        ]
        if version >= 1:
            seen += [listed(duration_filter=0), listed(duration_filter=3_600_000)]
        if version >= 2:
            for pattern in (f"{unique}-[12]", f"{unique}", f".*{unique}.*", "", "["):
                seen.append(listed(transactional_id_pattern=pattern))
        return seen

    pair.same(run)


@pytest.mark.parametrize("version", [3, 5])
def test_what_is_stored_is_the_same(pair: Pair, unique: str, version: int) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        _ready(client, unique)
        found = _init(client, unique, 4)
        first_id, epoch = found.producer_id, found.producer_epoch
        for commit in (True, False):
            _settled_add(client, unique, (first_id, epoch))
            answer = _end(client, unique, version, (first_id, epoch), commit=commit)
            epoch = answer.producer_epoch if version >= 5 else epoch
        # Begun, and taken over while it is open.
        _settled_add(client, unique, (first_id, epoch))
        _init(client, unique, 4)
        return [
            (
                name == unique,
                one.producer_id - first_id,
                one.producer_epoch,
                one.previous_producer_id - first_id,
                one.next_producer_id,
                one.state,
                sorted((tp.topic == unique, tp.partition) for tp in one.partitions),
                one.timeout_ms,
                one.started_ms > 0,
                one.client_version,
                version_of_value,
            )
            for name, one, version_of_value in _stored(broker)
            if name == unique
        ]

    pair.same(run)


def _stored(broker: BrokerProcess) -> list[tuple[str, Any, int]]:
    """Give (id, state, version of the value) of all that the topic of the state holds, in order."""
    found = []
    for batch in stored_batches(broker.data_directory, STATE_TOPIC):
        for record in batch.records():
            name = None if record.key is None else parse_key(record.key)
            if name is not None and record.value is not None:
                found.append((name, parse_value(record.value), record.value[1]))
    return found
