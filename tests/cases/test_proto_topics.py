"""PROTO-08 to PROTO-11 and PROTO-14: metadata, auto-creation, advertised addresses, topic ids."""

import asyncio
import os
import threading
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from tests.cases.conftest import address
from tests.harness import batches
from tests.harness.broker import BrokerProcess
from tests.harness.ports import free_port
from tests.harness.raw import RawClient, eventually, fetch_row, fetch_values

PROPERTIES = {"num.partitions": "3"}


@pytest.mark.parametrize("version", [0, 1, 4, 12])
def test_proto_08_null_topics_means_all(client: RawClient, fresh, version: int) -> None:
    names = {fresh("all") for _ in range(3)}
    for name in names:
        client.create_topic(name)
    answer = client.metadata(None, version=version)
    assert names <= {topic.name for topic in answer.topics}
    assert all(topic.error_code == 0 for topic in answer.topics)


@pytest.mark.parametrize("version", [1, 4, 12])
def test_proto_08_empty_topics_means_none(client: RawClient, version: int) -> None:
    before = client.topic_names()
    answer = client.metadata([], version=version)
    assert answer.topics == []
    assert [broker.node_id for broker in answer.brokers] == [1]
    assert answer.controller_id == 1
    if version >= 2:
        assert len(answer.cluster_id) == 22
    assert client.topic_names() == before


ILLEGAL_NAMES = ["a b", "", ".", "..", "x" * 250, "naïve", "sl/ash"]


def test_proto_09_auto_creation_of_legal_names_only(broker: BrokerProcess, client: RawClient, fresh) -> None:
    before = client.topic_names()
    good, unwanted = fresh("ok"), fresh("nope")
    answer = client.metadata([good, *ILLEGAL_NAMES], version=4, create=True)
    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes.pop(good) in (0, 3, 5)
    assert codes == dict.fromkeys(ILLEGAL_NAMES, 17)
    assert client.metadata([unwanted], version=4, create=False).topics[0].error_code == 3
    client.wait_for_topic(good, 3)
    assert client.topic_names() - before == {good}
    folders = {name.rpartition("-")[0] for name in os.listdir(broker.data_directory) if name[-1:].isdigit()}
    assert folders - before - {"__cluster_metadata"} == {good}


def test_proto_09_auto_creation_does_not_collide(client: RawClient, fresh) -> None:
    name = fresh("m.n")
    client.create_topic(name)
    shadow = name.replace(".", "_")
    answer = client.metadata([shadow], version=4, create=True)
    assert answer.topics[0].error_code != 0
    assert shadow not in client.topic_names()


def test_proto_09_auto_creation_switched_off(broker_factory) -> None:
    off = broker_factory({"auto.create.topics.enable": "false"})
    with RawClient(address(off)) as client:
        for _ in range(3):
            assert client.metadata(["nope2"], version=4, create=True).topics[0].error_code == 3
        assert client.topic_names() == set()


def _send_with_kafka_python(bootstrap: str, topics: list[str]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    waiting = [producer.send(topic, b"%d" % number) for topic in topics for number in range(10)]
    for future in waiting:
        future.get(15)
    producer.close()


def _send_with_confluent(bootstrap: str, topics: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    errors: list[object] = []
    for topic in topics:
        for number in range(10):
            producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(15) == 0
    assert errors == [None] * len(topics) * 10


def _send_with_aiokafka(bootstrap: str, topics: list[str]) -> None:
    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            sends = [producer.send_and_wait(topic, b"%d" % number) for topic in topics for number in range(10)]
            await asyncio.wait_for(asyncio.gather(*sends), 15)

    asyncio.run(run())


def test_proto_10_many_clients_auto_create_the_same_topic(broker: BrokerProcess, client: RawClient, fresh) -> None:
    shared = fresh("shared")
    own = [fresh("own") for _ in range(20)]
    senders = [_send_with_kafka_python, _send_with_confluent, _send_with_aiokafka]
    failures: list[BaseException] = []
    barrier = threading.Barrier(20)

    def work(index: int) -> None:
        barrier.wait()
        try:
            senders[index % 3](broker.bootstrap, [shared, own[index]])
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    listed = [topic.name for topic in client.metadata(None).topics]
    assert len(listed) == len(set(listed))
    for topic, records in [(shared, 200), *((name, 10) for name in own)]:
        assert len(client.topic(topic).partitions) == 3
        assert sum(client.end_offset(topic, partition) for partition in range(3)) == records


def _two_listeners(broker: BrokerProcess, is_reference: bool) -> dict[str, tuple[str, int]]:
    inner, outer = broker.port, free_port()
    extra = f",CONTROLLER://127.0.0.1:{broker.controller_port}" if is_reference else ""  # type: ignore[attr-defined]
    broker.properties |= {
        "listeners": f"INT://127.0.0.1:{inner},EXT://127.0.0.1:{outer}{extra}",
        "advertised.listeners": f"INT://127.0.0.1:{inner},EXT://localhost:{outer}",
        "listener.security.protocol.map": "INT:PLAINTEXT,EXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INT",
    }
    return {"INT": ("127.0.0.1", inner), "EXT": ("localhost", outer)}


def _coordinator_addresses(client: RawClient, version: int, key_type: int) -> set[tuple[str, int]]:
    key_type_field = {"key_type": key_type} if version else {}
    keys = {"coordinator_keys": ["who"]} if version >= 4 else {"key": "who"}

    def ask():
        answer = client.request("find_coordinator", version, **keys, **key_type_field)
        found = answer.coordinators if version >= 4 else [answer]
        return {(row.host, row.port) for row in found} if all(row.error_code == 0 for row in found) else None

    return eventually(ask, what="coordinator")


def test_proto_11_addresses_match_the_listener(broker_factory, is_reference: bool) -> None:
    broker = broker_factory(start=False)
    listeners = _two_listeners(broker, is_reference)
    broker.start()
    for host, port in listeners.values():
        with RawClient(("127.0.0.1", port)) as client:
            for version in client.offered("metadata"):
                assert [(row.host, row.port) for row in client.metadata([], version=version).brokers] == [(host, port)]
            cluster = client.request("describe_cluster", 0)
            assert [(row.host, row.port) for row in cluster.brokers] == [(host, port)]
            for version in (0, 3, 4):
                for key_type in (0, 1) if version and client.offers("end_txn", 0) else (0,):
                    assert _coordinator_addresses(client, version, key_type) == {(host, port)}
            transactions = client.offers("end_txn", 0)
        _group_works(f"127.0.0.1:{port}", f"through-{port}", transactional=transactions)


def _group_works(bootstrap: str, topic: str, *, transactional: bool) -> None:
    config = {"bootstrap.servers": bootstrap} | ({"transactional.id": topic} if transactional else {})
    producer = Producer(config)
    if transactional:
        producer.init_transactions(30)
        producer.begin_transaction()
    producer.produce(topic, b"payload")
    if transactional:
        producer.commit_transaction(30)
    assert producer.flush(15) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = eventually(lambda: consumer.poll(1.0), what="a record through the group")
    assert message.value() == b"payload"
    consumer.commit(asynchronous=False)
    consumer.close()


def _fetch_by_id(client: RawClient, version: int, topic_id: bytes, **session: int):
    rows = [{"topic_id": topic_id, "partitions": [fetch_row(0, 0)]}]
    return client.request("fetch", version, **fetch_values(rows, version=version, **session))


def test_proto_14_unknown_topic_ids(client: RawClient) -> None:
    stranger = os.urandom(16)
    [topic] = client.request("metadata", 12, topics=[{"topic_id": stranger, "name": None}]).topics
    assert (topic.error_code, topic.topic_id, topic.name) == (100, stranger, None)
    for version in client.offered("fetch", 13, client.highest("fetch")):
        answer = _fetch_by_id(client, version, stranger)
        assert [entry.topic_id for entry in answer.responses] == [stranger]
        assert [row.error_code for row in answer.responses[0].partitions] == [100]


def test_proto_14_old_id_after_recreation_never_returns_new_data(
    client: RawClient, connect: Callable[..., RawClient], fresh
) -> None:
    topic = fresh()
    version = client.highest("fetch")
    old_id = client.create_topic(topic)
    client.append(topic, batches.simple("old"))
    session = connect()
    opened = _fetch_by_id(session, version, old_id, session_id=0, session_epoch=0)
    assert opened.session_id != 0
    client.delete_topic(topic)
    new_id = client.create_topic(topic)
    assert new_id != old_id
    client.append(topic, batches.simple("new"))

    answer = _fetch_by_id(client, version, old_id)
    assert [entry.topic_id for entry in answer.responses] == [old_id]
    assert answer.responses[0].partitions[0].error_code == 100

    values = fetch_values([], version=version, session_id=opened.session_id, session_epoch=1)
    answer = session.request("fetch", version, **values)
    assert answer.error_code == 0
    assert [entry.topic_id for entry in answer.responses] == [old_id]
    [row] = answer.responses[0].partitions
    assert row.error_code in (100, 103)
    assert not row.records
