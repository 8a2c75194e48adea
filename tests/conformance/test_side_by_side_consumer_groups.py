"""Groups of the consumer protocol answer and are stored as Apache Kafka's are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.coordinator.group.consumer.metadata_hash import topic_hash
from broker.metadata.image import PartitionImage, TopicImage
from protocol.message import field_specs
from tests.harness.broker import BrokerProcess
from tests.harness.consumer_groups import ConsumerMember, stored_group_records
from tests.harness.groups import Member, find_coordinator, subscription
from tests.harness.pair import Pair
from tests.harness.raw import RawClient, eventually

pytestmark = pytest.mark.jvm

PROPERTIES = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.max.size": "4",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    both = Pair(tmp_path_factory.mktemp("consumer-groups"), properties=PROPERTIES)
    yield both
    both.close()


class Scene:
    """One broker's side of a comparison: answers and records with topic ids written as topic names."""

    def __init__(self, broker: BrokerProcess, client: RawClient, group: str) -> None:
        self.broker = broker
        self.client = client
        self.group = group
        self.names: dict[bytes, str] = {}
        self.shown: list[Any] = []
        find_coordinator(client, group)

    def topic(self, name: str, partitions: int) -> bytes:
        """Create a topic; the reference's group coordinator learns of it some time after the answer."""
        topic_id = self.client.create_topic(name, partitions)
        self.names[topic_id] = name
        probe = ConsumerMember(self.client, f"{self.group}-probe", "probe")
        eventually(lambda: probe.join(name).error_code == 0 and probe.assigned, what="the coordinator knows the topic")
        probe.leave()
        return topic_id

    def member(self, member_id: str, **options: Any) -> ConsumerMember:
        return ConsumerMember(self.client, self.group, member_id, **options)

    def show(self, answer: Any) -> Any:
        """Keep an answer for the comparison."""
        assignment = answer.assignment
        self.shown.append(
            (
                answer.error_code,
                answer.error_message,
                answer.member_id,
                answer.member_epoch,
                answer.heartbeat_interval_ms,
                None if assignment is None else self._named(assignment.topic_partitions),
            )
        )
        return answer

    def _named(self, parts: Any) -> Any:
        return sorted((self.names.get(part.topic_id, "?"), sorted(part.partitions)) for part in parts)

    def describe(self, *groups: str, version: int = 1) -> None:
        answer = self.client.request(
            "consumer_group_describe", version, group_ids=groups or (self.group,), include_authorized_operations=True
        )
        for group in answer.groups:
            members = [
                (
                    *(getattr(member, name) for name in ("member_id", "instance_id", "rack_id", "member_epoch")),
                    *(getattr(member, name) for name in ("client_id", "client_host", "subscribed_topic_regex")),
                    sorted(member.subscribed_topic_names),
                    getattr(member, "member_type", None),
                    self._named(member.assignment.topic_partitions),
                    self._named(member.target_assignment.topic_partitions),
                )
                for member in group.members
            ]
            self.shown.append(
                (
                    *(group.group_id, group.error_code, group.error_message, group.group_state, group.group_epoch),
                    *(group.assignment_epoch, group.assignor_name, group.authorized_operations),
                    sorted(members),
                )
            )

    def records(self) -> list[Any]:
        """Give the stored records, without what differs from run to run: ids, times, the order of the targets."""
        records = [
            (kind, self._plain(key), None if value is None else self._plain(value))
            for kind, key, value in stored_group_records(self.broker, self.group)
        ]
        ordered: list[Any] = []
        for kind, alike in itertools.groupby(records, key=lambda record: record[0]):
            run = list(alike)
            ordered += sorted(run, key=repr) if kind == "TargetAssignmentMember" else run
        return ordered

    def _plain(self, value: Any) -> Any:
        if isinstance(value, list):
            plain_list = [self._plain(one) for one in value]
            return sorted(plain_list, key=repr) if plain_list and isinstance(plain_list[0], dict) else plain_list
        if isinstance(value, bytes):
            return self.names.get(value, value)
        if not hasattr(value, "__slots__"):
            return value
        plain = {name: self._plain(getattr(value, name)) for name in field_specs(type(value))}
        for name in ("assignment_timestamp", "timestamp", "version", "metadata_hash"):
            if name in plain:
                plain[name] = bool(plain[name])
        return plain


def _comparable(our: Any, their: Any) -> Any:
    """Leave out our words where the reference has none: it leaves some refusals to the client."""
    if not isinstance(our, tuple) or len(our) != len(their):
        return our
    return tuple(None if them is None and isinstance(us, str) else us for us, them in zip(our, their, strict=True))


@pytest.fixture
def compare(pair: Pair, unique: str) -> Callable[[Callable[[Scene], Any]], None]:
    def compare(play: Callable[[Scene], Any]) -> None:
        def run(broker: BrokerProcess, client: RawClient) -> Any:
            scene = Scene(broker, client, unique)
            returned = play(scene)
            return scene.shown, scene.records(), returned

        ours, kafka = pair.both(run)
        for position, (our, their) in enumerate(zip(ours[0], kafka[0], strict=True)):
            assert _comparable(our, their) == their, f"answer {position}"
        for position, (our, their) in enumerate(zip(ours[1], kafka[1], strict=False)):
            assert our == their, f"record {position}"
        if ours[2] is not None:
            for position, (our, their) in enumerate(zip(ours[2], kafka[2], strict=True)):
                assert our == their, f"returned {position}"
        assert ours[1:] == kafka[1:]

    return compare


def test_one_member_joins_reports_and_leaves(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        scene.topic(unique, 3)
        one = scene.member("m1")
        scene.show(one.join(unique))
        scene.describe()
        scene.show(one.own())
        scene.show(one.report())
        scene.show(one.own(rebalance_timeout_ms=60_000, subscribed_topic_names=[unique]))
        scene.show(one.report(subscribed_topic_names=[unique, "unknown"]))
        scene.show(one.own())
        scene.show(one.report(rack_id="r", server_assignor="range"))
        scene.describe()
        scene.show(one.join(unique))
        scene.show(one.leave())
        scene.describe()
        scene.show(one.report())

    compare(play)


def test_a_second_member_gets_what_the_first_gives_back(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        topic_id = scene.topic(unique, 4)
        one, two = scene.member("m1"), scene.member("m2")
        scene.show(one.join(unique, server_assignor="range"))
        scene.show(one.own())
        scene.show(two.join(unique, server_assignor="range"))
        scene.describe()
        scene.show(one.report())
        scene.show(two.report())
        scene.show(one.own({topic_id: [0, 1, 2, 3]}))
        scene.describe()
        scene.show(one.own({topic_id: [0, 1]}))
        scene.show(two.own({}))
        scene.describe()
        scene.show(two.own())
        scene.show(one.report())
        scene.show(two.leave())
        scene.show(one.report())
        scene.show(one.own())
        scene.describe()

    compare(play)


def test_epochs_that_are_not_expected(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        topic_id = scene.topic(unique, 2)
        one = scene.member("m1")
        scene.show(one.join(unique))
        scene.show(one.report(subscribed_topic_names=[unique, "later"]))
        for epoch, owned in ((7, [0]), (1, [0, 1]), (1, [5]), (0, [0]), (-3, [])):
            one.epoch = epoch
            scene.show(one.report(topic_partitions=[{"topic_id": topic_id, "partitions": owned}]))
        scene.show(scene.member("other", epoch=2).report())
        scene.show(scene.member("other", epoch=-1).report())

    compare(play)


def test_requests_that_are_refused(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        scene.topic(unique, 1)
        for version in (0, 1):
            for member_id in ("", " ", "m1"):
                for fields in (
                    {"member_epoch": 1},
                    {"member_epoch": -1},
                    {"member_epoch": -2},
                    {"member_epoch": -2, "instance_id": "i"},
                    {"member_epoch": -3},
                    {"group_id": " "},
                    {"group_id": ""},
                    {"instance_id": ""},
                    {"rack_id": " "},
                    {"member_epoch": 0, "rebalance_timeout_ms": -1},
                    {"member_epoch": 0, "topic_partitions": None},
                    {"member_epoch": 0, "topic_partitions": [{"topic_id": bytes(16), "partitions": [0]}]},
                    {"member_epoch": 0, "subscribed_topic_names": None},
                    {"member_epoch": 0, "server_assignor": "foo"},
                    {"member_epoch": 0, "server_assignor": ""},
                ):
                    if not member_id and version == 0 and fields.get("server_assignor") is None and len(fields) == 1:
                        continue
                    scene.show(
                        scene.member(member_id, version=version).report(
                            **{
                                "rebalance_timeout_ms": 1000,
                                "subscribed_topic_names": [unique],
                                "topic_partitions": [],
                                **fields,
                            }
                        )
                    )
        scene.describe("", f"{unique}-unknown")

    compare(play)


def test_a_full_group(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        scene.topic(unique, 1)
        for number in range(5):
            scene.show(scene.member(f"m{number}").join(unique))
        scene.show(scene.member("m0").join(unique))

    compare(play)


def test_static_members(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        scene.topic(unique, 2)
        one, two = scene.member("m1", instance="a"), scene.member("m2", instance="b")
        scene.show(one.join(unique, server_assignor="range"))
        scene.show(one.own())
        scene.show(scene.member("m3", instance="a").join(unique))
        scene.show(one.leave(-2))
        scene.describe()
        again = scene.member("m4", instance="a")
        scene.show(again.join(unique, server_assignor="range"))
        scene.show(again.own())
        one.epoch = 1
        scene.show(one.report())
        scene.show(two.join(unique, server_assignor="range"))
        scene.show(again.own({}))
        scene.show(two.report())
        scene.show(scene.member("m9", instance="z", epoch=1).report())
        scene.show(scene.member("m9", instance="z", epoch=-2).report())
        scene.show(again.leave(-1))
        scene.describe()

    compare(play)


def test_regular_expressions(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        for name in ("x", "y", "xy"):
            scene.topic(f"{unique}-{name}", 1)
        one = scene.member("m1")
        for bad in ("(a", "a{2000}", "[z-a]", "a(?=b)"):
            answer = one.join(subscribed_topic_regex=bad)
            scene.shown.append(answer.error_code)
        scene.show(one.join(subscribed_topic_regex=f"{unique}-x.*"))
        eventually(lambda: one.report().member_epoch > 0 and one.assigned, what="an assignment", every_s=0.2)
        scene.shown.append(sorted(scene.names[topic_id] for topic_id in one.assigned))
        scene.show(one.own())
        scene.describe()
        scene.show(one.report(subscribed_topic_regex="", subscribed_topic_names=[f"{unique}-y"]))
        scene.show(one.own({}))
        scene.show(one.report())
        scene.describe()

    compare(play)


def test_topics_that_come_grow_and_go(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> None:
        scene.topic(f"{unique}-a", 1)
        one = scene.member("m1")
        scene.show(one.join(f"{unique}-a", f"{unique}-b"))
        scene.show(one.own())
        scene.topic(f"{unique}-b", 1)
        scene.show(_until_epoch(one, 3))
        scene.show(one.own())
        scene.client.request(
            "create_partitions", 3, topics=[{"name": f"{unique}-b", "count": 2, "assignments": None}], timeout_ms=9000
        )
        scene.show(_until_epoch(one, 4))
        scene.show(one.own())
        scene.client.delete_topic(f"{unique}-a")
        eventually(lambda: one.report() and len(one.assigned) == 1, every_s=0.2)
        scene.describe()
        scene.show(one.own())

    compare(play)


def _until_epoch(member: ConsumerMember, epoch: int) -> Any:
    def reached() -> Any:
        answer = member.own()
        return answer if answer.member_epoch >= epoch else None

    return eventually(reached, what=f"epoch {epoch}", every_s=0.2)


def test_other_apis_about_consumer_groups(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> list[Any]:
        topic_id = scene.topic(unique, 2)
        one = scene.member("m1")
        scene.show(one.join(unique))
        scene.show(one.own())
        client, group = scene.client, scene.group
        shown: list[Any] = []

        def commit(version: int, member_id: str, epoch: int, instance: str | None = None) -> None:
            topic = {"name": unique} if version < 10 else {"topic_id": topic_id}
            part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "m", "committed_leader_epoch": 0}
            answer = client.request(
                "offset_commit",
                version,
                group_id=group,
                generation_id_or_member_epoch=epoch,
                member_id=member_id,
                group_instance_id=instance,
                topics=[{**topic, "partitions": [part]}],
            )
            shown.append(("commit", version, epoch, answer.topics[0].partitions[0].error_code))

        def fetch(member_id: str | None, epoch: int) -> None:
            asked = {"group_id": group, "member_id": member_id, "member_epoch": epoch}
            topics = [{"name": unique, "partition_indexes": [0, 1]}]
            answer = client.request("offset_fetch", 9, groups=[{**asked, "topics": topics}], require_stable=True)
            [found] = answer.groups
            offsets = [p.committed_offset for t in found.topics for p in t.partitions]
            shown.append(("fetch", member_id, epoch, found.error_code, offsets))

        epoch = one.epoch
        commit(8, "m1", epoch)
        for version in (9, 10):
            for member_id, at in (("m1", epoch), ("m1", 0), ("m1", 9), ("m2", 1), ("", -1), ("m1", -1)):
                commit(version, member_id, at)
        for member, at in ((None, -1), ("m1", epoch), ("m1", 9), ("m1", 0), ("m2", 1), ("", -1)):
            fetch(member, at)
        scene.show(one.report(subscribed_topic_names=[unique, "more"]))
        commit(9, "m1", epoch)
        commit(9, "m1", epoch - 1)
        for version in (5, 6):
            [described] = client.request("describe_groups", version, groups=[group]).groups
            message = getattr(described, "error_message", None)
            shown.append((described.error_code, message, described.group_state, described.protocol_type))
        for states, types in (([], []), (["stable"], []), (["empty"], []), ([], ["Consumer"]), ([], ["classic"])):
            listed = client.request("list_groups", 5, states_filter=states, types_filter=types).groups
            shown.append([(g.protocol_type, g.group_state, g.group_type) for g in listed if g.group_id == group])
        shown.append([row.error_code for row in client.request("delete_groups", 2, groups_names=[group]).results])
        scene.show(one.leave())
        commit(9, "", -1)
        shown.append([row.error_code for row in client.request("delete_groups", 2, groups_names=[group]).results])
        scene.describe()
        return shown

    compare(play)


def test_classic_members_and_the_way_there_and_back(compare: Any, unique: str) -> None:
    def play(scene: Scene) -> list[Any]:
        scene.topic(unique, 2)
        address = (scene.broker.host, scene.broker.port)
        shown: list[Any] = []
        with RawClient(address, client_id="old") as connection:
            old = Member(connection, scene.group, protocols=[("range", subscription(unique))])
            old.start_join(9)
            shown.append(old.receive_join(9).error_code)
            leads = [{"member_id": old.member_id, "assignment": _assignment(unique, 0, 1)}]
            shown.append(_sync(old, leads))
            new = scene.member("new")
            shown.append(new.join(unique, server_assignor="range").error_code)
            shown.append(_heartbeat(old))
            answer = old.try_join(9)
            shown.append((answer.error_code, answer.generation_id, answer.leader, answer.protocol_name))
            shown.append(_sync(old, []))
            shown.append(_heartbeat(old))
            # Cooperative clients tell what they own in their subscription; this one says nothing, so it owns nothing.
            answer = old.try_join(9)
            shown.append((answer.error_code, answer.generation_id, len(answer.members)))
            shown.append(_sync(old, []))
            shown.append(_heartbeat(old))
            shown.append(new.report().member_epoch)
            shown.append(sorted(new.assigned.values()))
            listed = scene.client.request("list_groups", 5, states_filter=[], types_filter=[]).groups
            shown.append([(g.group_state, g.group_type) for g in listed if g.group_id == scene.group])
            answer = old.try_join(9)
            shown.append((answer.error_code, answer.generation_id))
            shown.append(_sync(old, []))
            shown.append(new.leave().error_code)
            shown.append(_heartbeat(old))
            listed = scene.client.request("list_groups", 5, states_filter=[], types_filter=[]).groups
            shown.append([(g.group_state, g.group_type) for g in listed if g.group_id == scene.group])
            answer = old.try_join(9)
            shown.append((answer.error_code, answer.generation_id, len(answer.members), answer.leader == old.member_id))
        return shown

    def play_without_ids(scene: Scene) -> list[Any]:
        returned = play(scene)
        scene.records = lambda: []  # type: ignore[method-assign]
        return returned

    compare(play_without_ids)


def _assignment(topic: str, *partitions: int) -> bytes:
    name = topic.encode()
    numbers = b"".join(number.to_bytes(4, "big") for number in partitions)
    counted = len(partitions).to_bytes(4, "big") + numbers
    return b"\x00\x00" + (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name + counted + b"\xff\xff\xff\xff"


def _sync(member: Member, assignments: list[Any]) -> Any:
    answer = member.client.request(
        "sync_group",
        5,
        group_id=member.group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    return answer.error_code, answer.protocol_type, answer.protocol_name, answer.assignment


def _heartbeat(member: Member) -> int:
    answer = member.client.request(
        "heartbeat",
        4,
        group_id=member.group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=None,
    )
    return int(answer.error_code)


def test_the_hash_of_the_topics_is_apache_kafkas(pair: Pair, unique: str) -> None:
    def run(broker: BrokerProcess, client: RawClient) -> Any:
        scene = Scene(broker, client, f"{unique}-hash")
        topic_id = scene.topic(unique, 3)
        scene.member("m1").join(unique)
        [stored] = [value for kind, _, value in stored_group_records(broker, scene.group) if kind == "Metadata"]
        partition = PartitionImage(1, 0, 0, (1,), (1,), (bytes(16),))
        from broker.coordinator.group.consumer.metadata_hash import TopicHashes
        from broker.metadata.image import ClusterImage

        topic = TopicImage(unique, topic_id, (partition,) * 3)
        assert topic_hash(topic, {}) != 0
        image = ClusterImage("c", topics_by_name={unique: topic}, topics_by_id={topic_id: topic})
        return stored.metadata_hash == TopicHashes().of_topics([unique], image)

    assert pair.both(run) == (True, True)
