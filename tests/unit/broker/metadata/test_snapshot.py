from dataclasses import replace

import pytest

from broker.metadata.access import AccessImage, Acl, Credential
from broker.metadata.errors import CorruptMetadata
from broker.metadata.image import BrokerImage, ClusterImage, EndpointImage, FeatureRange, PartitionImage, TopicImage
from broker.metadata.snapshot import (
    QuorumRecords,
    SnapshotId,
    decode_snapshot,
    encode_snapshot,
    image_records,
    parse_snapshot_name,
)
from protocol.records.batch import iter_batches
from protocol.stored.cluster import DelegationTokenRecord, FeatureLevelRecord
from protocol.stored.raft import VotersRecord, VotersVoter

A, DIR = bytes([1]) * 16, bytes([9]) * 16


def rich_image(level: int = 29, cordoned: tuple[bytes, ...] | None = None) -> ClusterImage:
    partition = PartitionImage(1, 4, 7, (1,), (1,), (DIR,), eligible_leader_replicas=(1,), last_known_elr=(1,))
    topic = TopicImage("t", A, (partition, partition._replace(leader=-1, isr=(), eligible_leader_replicas=())))
    broker = BrokerImage(
        1,
        12,
        bytes([3]) * 16,
        (EndpointImage("P", "h", 65_535, 0),),
        (FeatureRange("f", 0, 1),),
        "r",
        False,
        False,
        (DIR,),
        cordoned,
    )
    return ClusterImage(
        "cluster",
        topics_by_name={"t": topic},
        topics_by_id={A: topic},
        brokers={1: broker},
        features={"metadata.version": level, "a.version": 1},
        configs={(2, "t"): {"retention.ms": "1"}, (4, ""): {"k": "v"}},
        next_producer_id=3000,
        access=AccessImage(
            {(("client-id", None), ("user", "x")): {"consumer_byte_rate": 1.5, "producer_byte_rate": 2.0}},
            {("u", 2): Credential(b"salt", b"stored", b"server", 8192)},
            {A: Acl(2, "t", 3, "User:x", "*", 3, 3)},
        ),
        retained={("token", "t"): DelegationTokenRecord(token_id="t", owner="User:x")},
        end_offset=77,
        epoch=5,
        last_timestamp_ms=123,
    )


def encoded(image: ClusterImage, quorum: QuorumRecords | None = None) -> bytes:
    return encode_snapshot(
        image_records(image),
        level=image.features["metadata.version"],
        epoch=image.epoch,
        last_timestamp_ms=image.last_timestamp_ms,
        now_ms=9,
        quorum=quorum,
    )


def test_an_image_comes_back_as_it_was() -> None:
    image = rich_image()
    voters = VotersRecord(voters=[VotersVoter(voter_id=1, voter_directory_id=DIR)])
    loaded, quorum = decode_snapshot(encoded(image, QuorumRecords(1, voters)), SnapshotId(77, 5), "cluster")
    assert replace(loaded, features_epoch=0) == image
    assert quorum == QuorumRecords(1, voters)


@pytest.mark.parametrize(("level", "kept"), [(29, None), (30, (DIR,))])
def test_cordoned_directories_are_kept_from_the_level_on_that_has_a_place_for_them(
    level: int, kept: tuple[bytes, ...] | None
) -> None:
    loaded, _ = decode_snapshot(encoded(rich_image(level, (DIR,))), SnapshotId(77, 5), "cluster")
    assert loaded.brokers == rich_image(level, kept).brokers


def test_the_metadata_version_is_the_first_record() -> None:
    first = next(image_records(rich_image()))
    assert first == FeatureLevelRecord(name="metadata.version", feature_level=29)


def test_batches_are_control_data_control_with_offsets_from_zero() -> None:
    headers = [header for _, header in iter_batches(encoded(rich_image()))]
    assert [header.is_control for header in headers] == [True, False, True]
    assert [header.base_offset for header in headers] == [0, 1, headers[1].next_offset]
    assert {header.partition_leader_epoch for header in headers} == {5}


def test_a_cut_or_damaged_snapshot_is_refused() -> None:
    content = encoded(rich_image())
    *_, (footer_at, _) = iter_batches(content)
    damaged = bytearray(content)
    damaged[100] ^= 1
    for broken in (content[:footer_at], content[:-1], bytes(damaged), b""):
        with pytest.raises(CorruptMetadata):
            decode_snapshot(broken, SnapshotId(77, 5), "cluster")


def test_names() -> None:
    assert SnapshotId(12, 3).file_name == "00000000000000000012-0000000003.checkpoint"
    assert parse_snapshot_name("00000000000000000012-0000000003.checkpoint") == SnapshotId(12, 3)
    assert parse_snapshot_name("00000000000000000012-0000000003.checkpoint.part") is None
    assert parse_snapshot_name("bootstrap.checkpoint") is None
