"""Leaders and directories of partitions when log directories fail, are away at a start, and come back."""

from __future__ import annotations

from collections.abc import Sequence

from broker.metadata.apply import MetadataDraft
from broker.metadata.controller.brokers import Registration, broker_record, register
from broker.metadata.controller.directories import (
    plan_assign_directories,
    plan_cordon_directories,
    plan_dirs_offline,
    plan_elections_at_start,
)
from broker.metadata.controller.partitions import partition_record
from broker.metadata.image import LOST_DIR, ClusterImage, PartitionImage
from protocol.stored.cluster import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    TopicRecord,
)
from storage.types import TopicPartition

NODE = 1
A, B, C, UNASSIGNED = (bytes([number]) * 16 for number in (0xA, 0xB, 0xC, 0))
TOPIC_ID = bytes([7]) * 16


def placed(directory: bytes, *, leader: int = NODE, isr: tuple[int, ...] = (NODE,)) -> PartitionImage:
    return PartitionImage(leader, 3, 5, isr if len(isr) > 1 else (NODE,), isr, (directory,) * max(1, len(isr)))


def image_with(*partitions: PartitionImage, log_dirs: tuple[bytes, ...] = (A, B)) -> ClusterImage:
    registered = register(Registration(NODE, bytes(16), (), None, log_dirs), 0)._replace(fenced=False)
    records = [TopicRecord(name="t", topic_id=TOPIC_ID)]
    records += [partition_record(TOPIC_ID, number, one) for number, one in enumerate(partitions)]
    return after(ClusterImage("cluster"), [broker_record(registered), *records])


def after(image: ClusterImage, records: Sequence[object]) -> ClusterImage:
    draft = MetadataDraft(image)
    for offset, record in enumerate(records, image.end_offset):
        draft.replay(record, offset)
    return draft.finish(end_offset=image.end_offset + len(records), epoch=1, timestamp_ms=0)[0]


def where(**directories: bytes) -> dict[TopicPartition, bytes]:
    return {TopicPartition("t", int(name[1:])): directory for name, directory in directories.items()}


def partitions(image: ClusterImage) -> tuple[PartitionImage, ...]:
    return image.topics_by_name["t"].partitions


def test_partitions_of_a_failed_directory_lose_their_leader_in_a_new_epoch_and_keep_their_isr() -> None:
    image = image_with(placed(A), placed(B))
    failed = after(image, plan_dirs_offline(image, NODE, {B}, where(t0=A, t1=B)).records)
    assert partitions(failed)[0] == partitions(image)[0]
    lost = partitions(failed)[1]
    assert (lost.leader, lost.leader_epoch, lost.partition_epoch, lost.isr, lost.directories) == (-1, 4, 6, (1,), (B,))
    assert failed.brokers[NODE].log_dirs == (A,)
    assert [failed.offline_replicas(one) for one in partitions(failed)] == [[], [NODE]]


def test_the_registration_changes_last_as_in_kafka() -> None:
    image = image_with(placed(B), placed(B))
    kinds = [type(record) for record in plan_dirs_offline(image, NODE, {B}, {}).records]
    assert kinds == [PartitionChangeRecord, PartitionChangeRecord, BrokerRegistrationChangeRecord]


def test_a_failure_that_is_known_yields_no_record() -> None:
    image = image_with(placed(B))
    failed = after(image, plan_dirs_offline(image, NODE, {B}, {}).records)
    assert plan_dirs_offline(failed, NODE, {B}, where(t0=B)).records == []


def test_a_replica_with_others_in_sync_leaves_them_alone_in_sync() -> None:
    image = image_with(placed(B, isr=(1, 2)))
    failed = after(image, plan_dirs_offline(image, NODE, {B}, {}).records)
    assert partitions(failed)[0].isr == (2,)


def test_a_log_whose_place_was_not_reported_yet_is_lost_with_its_directory() -> None:
    image = image_with(placed(UNASSIGNED), placed(A))
    failed = after(image, plan_dirs_offline(image, NODE, {B}, where(t0=B, t1=B)).records)
    assert [(one.leader, one.directories) for one in partitions(failed)] == [(-1, (B,)), (-1, (B,))]


def test_a_log_that_is_served_from_elsewhere_goes_on_and_is_recorded_there() -> None:
    """A move was recorded, and its destination failed before it was carried out."""
    image = image_with(placed(B))
    failed = after(image, plan_dirs_offline(image, NODE, {B}, where(t0=A)).records)
    served = partitions(failed)[0]
    assert (served.leader, served.leader_epoch, served.directories) == (NODE, 3, (A,))


def test_a_report_that_comes_after_the_directory_has_failed_takes_the_leader() -> None:
    image = image_with(placed(UNASSIGNED), log_dirs=(A,))
    [record] = plan_assign_directories(image, NODE, where(t0=B)).records
    reported = partitions(after(image, [record]))[0]
    assert (reported.leader, reported.directories) == (-1, (B,))


def test_a_start_leads_what_is_there_and_gives_up_what_lies_in_a_directory_that_is_away() -> None:
    image = image_with(placed(A), placed(B), placed(LOST_DIR), placed(UNASSIGNED), log_dirs=(A,))
    started = after(image, plan_elections_at_start(image, NODE, where(t0=A)))
    assert [one.leader for one in partitions(started)] == [1, -1, -1, 1]
    assert [one.leader_epoch for one in partitions(started)] == [4, 4, 4, 4]
    again = after(started, plan_elections_at_start(started, NODE, where(t0=A)))
    assert [one.leader_epoch for one in partitions(again)] == [5, 4, 4, 5]


def test_a_directory_that_comes_back_is_led_again() -> None:
    image = image_with(placed(B, leader=-1), log_dirs=(A, B))
    back = partitions(after(image, plan_elections_at_start(image, NODE, where(t0=B))))[0]
    assert (back.leader, back.leader_epoch, back.isr) == (NODE, 4, (NODE,))


def test_a_log_that_is_here_is_led_wherever_the_metadata_look_for_it() -> None:
    image = image_with(placed(C), placed(UNASSIGNED))
    started = partitions(after(image, plan_elections_at_start(image, NODE, where(t0=A, t1=B))))
    assert [(one.leader, one.directories) for one in started] == [(NODE, (A,)), (NODE, (B,))]


def test_a_broker_that_names_no_directories_may_have_any() -> None:
    image = image_with(placed(C), log_dirs=())
    assert partitions(after(image, plan_elections_at_start(image, NODE, {})))[0].leader == NODE
    assert image.offline_replicas(partitions(image)[0]) == []


def at_level(image: ClusterImage, level: int) -> ClusterImage:
    return after(image, [FeatureLevelRecord(name="metadata.version", feature_level=level)])


def test_cordoned_directories_are_told_when_they_change_and_once_that_there_are_none() -> None:
    image = at_level(image_with(), 30)
    for cordoned in ([], [A], [A, B], [B]):
        [record] = plan_cordon_directories(image, NODE, cordoned).records
        assert isinstance(record, BrokerRegistrationChangeRecord)
        assert (record.fenced, record.log_dirs, record.cordoned_log_dirs) == (0, [], cordoned)
        image = after(image, [record])
        assert plan_cordon_directories(image, NODE, cordoned[::-1]).records == []
    assert image.brokers[NODE].log_dirs == (A, B)


def test_cordoned_directories_are_told_nobody_who_could_not_read_it() -> None:
    assert plan_cordon_directories(at_level(image_with(), 29), NODE, [A]).records == []
