"""What clients make of records that are pending, of a mode that changes, and of records refused for their time."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable
from typing import NamedTuple

import aiokafka
import pytest
from confluent_kafka import OFFSET_END, Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer, TopicPartition

from tests.harness import batches
from tests.harness.admin import set_configs
from tests.harness.broker import BrokerProcess, reference_wanted
from tests.harness.client_host import ClientHost
from tests.harness.raw import RawClient, eventually
from tests.harness.readers import Reader, Wanted, now_ms, readers
from tests.harness.scraped import scrape
from tests.harness.senders import JavaSender, NotTaken, Sender, senders
from tests.harness.transacting import committed

pytestmark = pytest.mark.skipif(reference_wanted(), reason="Apache Kafka has no scheduled topics")

CLIENTS = [pytest.param("java", marks=pytest.mark.jvm), "librdkafka", "kafka-python", "aiokafka"]
VISIBLE, PENDING = 3, 5
MAX_DELAY_MS = 3_600_000
STEP_MS = 1_000
TIMEOUT_S = 30


class Stand(NamedTuple):
    """Where a consumer stands that has read all it gets, and what it is told."""

    position: int
    end: int
    lag: int
    due_later: int
    """The offset that a look-up by the time of the third pending record gives."""


class Topic(NamedTuple):
    """A topic whose last records are due in less than an hour."""

    name: str
    first_due_ms: int

    @property
    def asked_ms(self) -> int:
        """Return the time of the third pending record."""
        return self.first_due_ms + 2 * STEP_MS


def fill(broker: BrokerProcess, name: str, first_due_ms: int) -> Topic:
    """Make a topic with records that are visible and, behind them, records that are pending."""
    with RawClient((broker.host, broker.port)) as client:
        client.create_topic(name, delivery_mode="scheduled", delivery_max_delay_ms=str(MAX_DELAY_MS))
        for number in range(VISIBLE):
            client.append(name, batches.simple(f"visible {number}", timestamp=int(now_ms()) - 1_000))
        for number in range(PENDING):
            client.append(name, batches.simple(f"pending {number}", timestamp=first_due_ms + number * STEP_MS))
    return Topic(name, first_due_ms)


@pytest.fixture
def topic(shared_broker: BrokerProcess, unique: str) -> Topic:
    """Give a topic whose pending records nobody will live to see."""
    return fill(shared_broker, unique, int(now_ms()) + MAX_DELAY_MS // 2)


def of_java(host: ClientHost, bootstrap: str, topic: Topic) -> Stand:
    """Let Java's consumer read."""
    name = f"stands-{topic.name}"
    seen: list[object] = []
    host.make("consumer", name, {"bootstrap.servers": bootstrap}, lambda *one: seen.append(one))
    host.ask("start", name, topic.name, "BEGINNING")
    eventually(lambda: len(seen) == VISIBLE)
    [stand] = host.ask("state", name).split(",")
    position, end, lag = (int(number) for number in stand.split("=")[1].split("/"))
    due_later = int(host.ask("find", name, topic.name, 0, topic.asked_ms))
    host.ask("close", name)
    return Stand(position, end, lag, due_later)


def of_librdkafka(bootstrap: str, topic: Topic) -> Stand:
    """Let confluent-kafka's consumer read."""
    told: list[str] = []
    settings = {"bootstrap.servers": bootstrap, "group.id": "nobody", "statistics.interval.ms": 100}
    consumer = Consumer({**settings, "stats_cb": told.append, "enable.auto.commit": False, "log_level": 0})
    place = ConfluentPartition(topic.name, 0, 0)
    consumer.assign([place])
    assert len(consumer.consume(VISIBLE, TIMEOUT_S)) == VISIBLE

    def lag() -> int | None:
        assert consumer.poll(0.05) is None
        partitions = json.loads(told[-1])["topics"][topic.name]["partitions"] if told else {}
        return partitions["0"]["consumer_lag_stored"] if partitions and partitions["0"]["next_offset"] else None

    seen_lag = eventually(lambda: found if (found := lag()) and found > 0 else None)
    [position] = consumer.position([place])
    _, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S, cached=False)
    assert consumer.get_watermark_offsets(place, cached=True)[1] == VISIBLE + PENDING
    [found] = consumer.offsets_for_times([ConfluentPartition(topic.name, 0, topic.asked_ms)], timeout=TIMEOUT_S)
    consumer.close()
    return Stand(position.offset, end, seen_lag, found.offset)


def of_kafka_python(bootstrap: str, topic: Topic) -> Stand:
    """Let kafka-python's consumer read."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    place = TopicPartition(topic.name, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    read = [0]

    def has_read() -> bool:
        read[0] += sum(len(some) for some in consumer.poll(timeout_ms=100).values())
        return read[0] == VISIBLE

    eventually(has_read)
    position, highwater = consumer.position(place), consumer.highwater(place)
    end, found = consumer.end_offsets([place])[place], consumer.offsets_for_times({place: topic.asked_ms})[place]
    consumer.close()
    return Stand(position, end, highwater - position, found.offset)


async def of_aiokafka(bootstrap: str, topic: Topic) -> Stand:
    """Let aiokafka's consumer read."""
    place = aiokafka.TopicPartition(topic.name, 0)
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        for _ in range(VISIBLE):
            await consumer.getone()
        position, highwater = await consumer.position(place), consumer.highwater(place)
        end = (await consumer.end_offsets([place]))[place]
        found = (await consumer.offsets_for_times({place: topic.asked_ms}))[place]
        assert highwater is not None and found is not None
        return Stand(position, end, highwater - position, found.offset)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_consumer_stands_at_the_visible_end_and_counts_what_is_pending_as_lag(
    client: str, bootstrap: str, topic: Topic, client_host: ClientHost | None
) -> None:
    """The end is where a consumer that begins there would begin; the lag is up to the high watermark, which stays."""
    if client == "aiokafka":
        stand = await of_aiokafka(bootstrap, topic)
    elif client == "java":
        assert client_host is not None
        stand = of_java(client_host, bootstrap, topic)
    else:
        stand = {"librdkafka": of_librdkafka, "kafka-python": of_kafka_python}[client](bootstrap, topic)
    assert stand == Stand(VISIBLE, VISIBLE, PENDING, VISIBLE + 2)


def test_kcat_sees_the_end_of_a_partition_only_once_all_has_come(
    kcat: str, shared_broker: BrokerProcess, unique: str
) -> None:
    """librdkafka takes the high watermark for the end, so what reads to the end waits for what is pending."""
    topic = fill(shared_broker, unique, int(now_ms()) - (PENDING - 2) * STEP_MS)

    def run(*options: str) -> str:
        command = [kcat, "-b", shared_broker.bootstrap, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout

    due_ms = topic.first_due_ms + (PENDING - 1) * STEP_MS
    end = run("-Q", "-t", f"{topic.name}:0:-1").split()[-1]
    assert int(end) < VISIBLE + PENDING or now_ms() >= due_ms
    read = run("-C", "-t", topic.name, "-e", "-q", "-o", "beginning", "-f", "%o\n").split()
    assert read == [str(number) for number in range(VISIBLE + PENDING)]
    assert now_ms() >= due_ms


def test_an_admin_client_sees_both_ends_and_deletes_up_to_the_visible_one(bootstrap: str, topic: Topic) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    place = ConfluentPartition(topic.name, 0)

    def offset_at(spec: OffsetSpec) -> int:
        [found] = admin.list_offsets({place: spec}).values()
        return int(found.result(TIMEOUT_S).offset)

    assert offset_at(OffsetSpec.earliest()) == 0
    assert offset_at(OffsetSpec.latest()) == VISIBLE
    assert offset_at(OffsetSpec.max_timestamp()) == VISIBLE + PENDING - 1
    for everything in (OFFSET_END, VISIBLE + PENDING):
        [done] = admin.delete_records([ConfluentPartition(topic.name, 0, everything)]).values()
        assert done.result(TIMEOUT_S).low_watermark == VISIBLE
    assert offset_at(OffsetSpec.earliest()) == VISIBLE


@pytest.fixture
def make_sender(bootstrap: str, client_host: ClientHost | None) -> Callable[..., Sender]:
    """Give a function that makes a client's producer: make(client, transactional_id=..., options...)."""
    return lambda client, *arguments, **options: senders(client_host)[client](bootstrap, *arguments, **options)


def refusal(sender: Sender, topic: str, timestamp_ms: int) -> str:
    """Send a record that is refused; return what the client calls it, without regard to its style."""
    with pytest.raises(NotTaken) as refused:
        sender.send(topic, 0, timestamp_ms, "refused")
    return str(refused.value).split(":")[0].lower().replace("_", "")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_producer_says_that_a_time_is_too_far_ahead_and_does_not_send_again(
    client: str, shared_broker: BrokerProcess, topic: Topic, make_sender: Callable[..., Sender]
) -> None:
    # Once one record has been refused, kafka-python refuses all others by itself if they have sequence numbers.
    sender = make_sender(client, **({"enable_idempotence": False} if client == "kafka-python" else {}))
    assert sender.send(topic.name, 0, topic.first_due_ms, "first") == VISIBLE + PENDING
    assert refusal(sender, topic.name, int(now_ms()) + 2 * MAX_DELAY_MS).startswith("invalidtimestamp")
    assert sender.send(topic.name, 0, topic.first_due_ms, "second") == VISIBLE + PENDING + 1
    assert not isinstance(sender, JavaSender) or sender.retries() == 0
    sender.close()
    asked = scrape(shared_broker)["kafka_server_brokertopicmetrics_totalproducerequests_total"]
    assert asked[frozenset({("topic", topic.name)})] == VISIBLE + PENDING + 3


@pytest.mark.parametrize("client", CLIENTS)
def test_a_transaction_with_a_time_too_far_ahead_is_aborted(
    client: str, shared_broker: BrokerProcess, topic: Topic, make_sender: Callable[..., Sender]
) -> None:
    sender = make_sender(client, f"id-{topic.name}")
    with RawClient((shared_broker.host, shared_broker.port)) as client_of_ours:
        client_of_ours.create_topic(f"{topic.name}-2", delivery_mode="scheduled", delivery_max_delay_ms="0")
        sender.begin()
        sender.send(f"{topic.name}-2", 0, int(now_ms()) - 1_000, "taken, then aborted")
        assert refusal(sender, f"{topic.name}-2", int(now_ms()) + MAX_DELAY_MS).startswith("invalidtimestamp")
        sender.abort()
        # The marker is visible once its own time is past.
        eventually(lambda: client_of_ours.end_offset(f"{topic.name}-2") == 2)
        assert committed(client_of_ours, f"{topic.name}-2") == []
    sender.close()


def test_the_sentence_of_a_refusal_reaches_who_reads_it(topic: Topic, make_sender: Callable[..., Sender]) -> None:
    """kafka-python and Java show it; librdkafka and aiokafka have sentences of their own for each error."""
    sender = make_sender("kafka-python")
    with pytest.raises(NotTaken, match=f"delivery.max.delay.ms allows {MAX_DELAY_MS} ms"):
        sender.send(topic.name, 0, int(now_ms()) + 2 * MAX_DELAY_MS, "refused")
    sender.close()


@pytest.mark.parametrize("client", [*CLIENTS, "kcat"])
def test_a_consumer_that_waits_gets_all_that_is_pending_when_its_topic_delivers_at_once(
    client: str, shared_broker: BrokerProcess, unique: str, client_host: ClientHost | None, kcat: str
) -> None:
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(RawClient((shared_broker.host, shared_broker.port)))
        raw.create_topic(unique, delivery_mode="scheduled")

        def send(value: str, ahead_ms: int) -> None:
            raw.append(unique, batches.simple(value, timestamp=int(now_ms()) + ahead_ms))

        send("visible", -1_000)
        send("pending", MAX_DELAY_MS)
        send("behind it", -1_000)
        reader = readers(client_host, kcat)[client](shared_broker.bootstrap, Wanted(unique, 1))
        stack.callback(reader.stop)
        expect(reader, "visible")
        set_configs(raw, unique, delivery_mode="immediate")
        expect(reader, "visible", "pending", "behind it")
        set_configs(raw, unique, delivery_mode="scheduled")
        send("pending again", MAX_DELAY_MS)
        set_configs(raw, unique, delivery_mode="immediate")
        send("last", 0)
        expect(reader, "visible", "pending", "behind it", "pending again", "last")


def expect(reader: Reader, *values: str) -> None:
    """Wait until a consumer has seen these records, and no others."""
    eventually(lambda: len(reader.seen) >= len(values), what=f"{values}, not {reader.seen}")
    assert [one.value for one in reader.seen] == list(values)
