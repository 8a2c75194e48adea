"""OffsetCommit (key 8). Served: 2 to 10. OffsetFetch (key 9). Served: 1 to 10.

- OffsetCommit: v2 to v4 a retention of the commit's own; v6 leader epochs; v7 static members; v9 unknown groups are
  told apart from old generations; v10 topic ids.
- OffsetFetch: v1 errors in each partition only; v2 all topics (null) and a top-level error; v5 leader epochs; v7
  require_stable; v8 many groups, each with its own error; v9 member and epoch, for groups of the new protocol; v10
  topic ids.
- Difference from the reference: a commit made for a deleted topic is not shown for a new one of the same name in any
  version, not just in v10, since the broker stores the topic id with every commit.
- Difference from the reference: all offsets of a group are given once, however often the request names it.

Partitions that do not exist are refused one by one; the others are stored together. Source: KafkaApis,
OffsetMetadataManager; KIP-709, KIP-848.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.api.errors import known_code
from broker.api.route import RequestContext, Route
from broker.coordinator.errors import CoordinatorError, GroupIdNotFound
from broker.coordinator.group.coordinator import GroupCoordinator
from broker.coordinator.group.offsets import NO_OFFSET, FetchedOffset, FetchedTopic, FetchTopic
from broker.coordinator.group.shard import CommitRequest, OffsetEntry
from broker.metadata.image import ClusterImage, TopicImage
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition
from protocol.uuids import ZERO_UUID

FIRST_COMMIT_WITH_UNKNOWN_GROUPS = 9
FIRST_COMMIT_WITH_MEMBER_EPOCHS = 9
FIRST_COMMIT_WITH_TOPIC_IDS = 10
FIRST_FETCH_WITH_TOP_LEVEL_ERROR = 2
FIRST_FETCH_OF_GROUPS = 8
FIRST_FETCH_WITH_TOPIC_IDS = 10

_new_tuple = tuple.__new__

AskedTopic = OffsetFetchRequestTopic | OffsetFetchRequestTopics


class _GroupFetch(NamedTuple):
    """One group's part of an OffsetFetch: its error, or its topics with the error of each (for ids nobody knows)."""

    error: ErrorCode
    topics: list[tuple[FetchedTopic, ErrorCode]]


class _Asker(NamedTuple):
    """Whose offsets are asked for and, from v9 on, by which member."""

    group_id: str
    member_id: str | None = None
    member_epoch: int = -1


class GroupOffsetsApi:
    """Commits and their retrieval."""

    def __init__(self, coordinator: GroupCoordinator, image: Callable[[], ClusterImage]) -> None:
        self._coordinator = coordinator
        self._image = image

    def routes(self) -> tuple[Route, ...]:
        """Name what this family serves."""
        return (
            Route(ApiKey.OFFSET_COMMIT, 2, 10, self.offset_commit),
            Route(ApiKey.OFFSET_FETCH, 1, 10, self.offset_fetch),
        )

    # -- commit -----------------------------------------------------------------------------------------------------

    async def offset_commit(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        """Store a group's offsets."""
        entries: list[OffsetEntry] = []
        # The answers that wait for the coordinator, in the order of the entries.
        waiting: list[OffsetCommitResponsePartition] = []
        topics = [self._check_topic(topic, context.api_version, entries, waiting) for topic in request.topics]
        if entries:
            codes = await self._commit(request, context.api_version, entries)
            for answer, code in zip(waiting, codes, strict=True):
                answer.error_code = code
        return OffsetCommitResponse(topics=topics)

    def _check_topic(
        self,
        asked: OffsetCommitRequestTopic,
        version: int,
        entries: list[OffsetEntry],
        waiting: list[OffsetCommitResponsePartition],
    ) -> OffsetCommitResponseTopic:
        image = self._image()
        by_id = version >= FIRST_COMMIT_WITH_TOPIC_IDS
        topic = image.topics_by_id.get(asked.topic_id) if by_id else image.topics_by_name.get(asked.name)
        missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = 0 if topic is None else len(topic.partitions)
        answers: list[OffsetCommitResponsePartition] = []
        for partition in asked.partitions:
            number = partition.partition_index
            answer = OffsetCommitResponsePartition(partition_index=number)
            answers.append(answer)
            if topic is None or not 0 <= number < count:
                answer.error_code = missing
                continue
            waiting.append(answer)
            entries.append(offset_entry(topic, partition))
        return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=answers)

    async def _commit(
        self, request: OffsetCommitRequest, version: int, entries: list[OffsetEntry]
    ) -> Sequence[ErrorCode]:
        commit = CommitRequest(
            group_id=request.group_id,
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            retention_time_ms=request.retention_time_ms,
            entries=entries,
            knows_member_epochs=version >= FIRST_COMMIT_WITH_MEMBER_EPOCHS,
        )
        try:
            return await self._coordinator.commit_offsets(commit)
        except GroupIdNotFound:
            is_known_error = version >= FIRST_COMMIT_WITH_UNKNOWN_GROUPS
            code = ErrorCode.GROUP_ID_NOT_FOUND if is_known_error else ErrorCode.ILLEGAL_GENERATION
        except CoordinatorError as refusal:
            code = known_code(refusal)
        return [code] * len(entries)

    # -- fetch ------------------------------------------------------------------------------------------------------

    async def offset_fetch(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        """Give what groups have committed."""
        version = context.api_version
        if version < FIRST_FETCH_OF_GROUPS:
            fetched = await self._fetch_by_name(_Asker(request.group_id), request.topics, request.require_stable)
            return _single_response(request, fetched, version)
        groups = []
        wanted_whole: set[str] = set()
        for group in request.groups:
            if group.topics is None:
                # Once only: few bytes of a request could else ask for more than there is memory.
                if group.group_id in wanted_whole:
                    continue
                wanted_whole.add(group.group_id)
            groups.append(await self._fetch_group(group, request.require_stable, version))
        return OffsetFetchResponse(groups=groups)

    async def _fetch_group(
        self, asked: OffsetFetchRequestGroup, require_stable: bool, version: int
    ) -> OffsetFetchResponseGroup:
        asker = _Asker(asked.group_id, asked.member_id, asked.member_epoch)
        if version >= FIRST_FETCH_WITH_TOPIC_IDS:
            fetched = await self._fetch_by_id(asker, asked.topics, require_stable)
        else:
            fetched = await self._fetch_by_name(asker, asked.topics, require_stable)
        return OffsetFetchResponseGroup(
            group_id=asked.group_id,
            error_code=fetched.error,
            topics=[
                OffsetFetchResponseTopics(
                    name=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=offset.partition,
                            committed_offset=offset.offset,
                            committed_leader_epoch=offset.leader_epoch,
                            metadata=offset.metadata,
                            error_code=_partition_error(offset, error),
                        )
                        for offset in topic.partitions
                    ],
                )
                for topic, error in fetched.topics
            ],
        )

    async def _fetch_by_name(
        self, asker: _Asker, topics: Sequence[AskedTopic] | None, require_stable: bool
    ) -> _GroupFetch:
        asked = None
        if topics is not None:
            known = self._image().topics_by_name
            asked = [FetchTopic(t.name, _id_of(known.get(t.name)), t.partition_indexes) for t in topics]
        try:
            fetched = await self._fetch(asker, asked, require_stable)
        except CoordinatorError as refusal:
            return _GroupFetch(known_code(refusal), [])
        return _GroupFetch(ErrorCode.NONE, [(topic, ErrorCode.NONE) for topic in fetched])

    async def _fetch_by_id(
        self, asker: _Asker, topics: Sequence[OffsetFetchRequestTopics] | None, require_stable: bool
    ) -> _GroupFetch:
        if topics is None:
            everything = await self._fetch_by_name(asker, None, require_stable)
            return everything._replace(topics=self._with_current_ids(everything.topics))
        known = self._image().topics_by_id
        asked = [
            FetchTopic(topic.name, topic.topic_id, wanted.partition_indexes)
            for wanted in topics
            if (topic := known.get(wanted.topic_id)) is not None
        ]
        try:
            fetched = iter(await self._fetch(asker, asked, require_stable))
        except CoordinatorError as refusal:
            return _GroupFetch(known_code(refusal), [])
        return _GroupFetch(
            ErrorCode.NONE,
            [
                (next(fetched), ErrorCode.NONE) if wanted.topic_id in known else _unknown_topic(wanted)
                for wanted in topics
            ],
        )

    async def _fetch(
        self, asker: _Asker, topics: Sequence[FetchTopic] | None, require_stable: bool
    ) -> list[FetchedTopic]:
        return await self._coordinator.fetch_offsets(
            asker.group_id,
            topics,
            require_stable=require_stable,
            member_id=asker.member_id,
            member_epoch=asker.member_epoch,
        )

    def _with_current_ids(self, topics: list[tuple[FetchedTopic, ErrorCode]]) -> list[tuple[FetchedTopic, ErrorCode]]:
        """Name topics by their ids; those that no longer exist under the id they were committed for are left out."""
        known = self._image().topics_by_name
        named: list[tuple[FetchedTopic, ErrorCode]] = []
        for topic, error in topics:
            current = known.get(topic.topic)
            if current is not None and topic.topic_id in (ZERO_UUID, current.topic_id):
                named.append((topic._replace(topic_id=current.topic_id), error))
        return named


def offset_entry(
    topic: TopicImage, committed: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
) -> OffsetEntry:
    """Give the coordinator's part of a commit for one partition, in a transaction or not."""
    return _new_tuple(
        OffsetEntry,
        (
            topic.name,
            topic.topic_id,
            committed.partition_index,
            committed.committed_offset,
            committed.committed_leader_epoch,
            committed.committed_metadata or "",
        ),
    )


def _id_of(topic: TopicImage | None) -> bytes:
    return ZERO_UUID if topic is None else topic.topic_id


def _unknown_topic(asked: OffsetFetchRequestTopics) -> tuple[FetchedTopic, ErrorCode]:
    partitions = [FetchedOffset(partition) for partition in asked.partition_indexes]
    return FetchedTopic(asked.name, asked.topic_id, partitions), ErrorCode.UNKNOWN_TOPIC_ID


def _partition_error(offset: FetchedOffset, topic_error: ErrorCode) -> ErrorCode:
    return ErrorCode.UNSTABLE_OFFSET_COMMIT if offset.is_unstable else topic_error


def _single_response(request: OffsetFetchRequest, fetched: _GroupFetch, version: int) -> OffsetFetchResponse:
    """Answer for one group; v1 has no place for an error but the partitions."""
    if fetched.error is not ErrorCode.NONE and version < FIRST_FETCH_WITH_TOP_LEVEL_ERROR:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=partition,
                            committed_offset=NO_OFFSET,
                            metadata="",
                            error_code=fetched.error,
                        )
                        for partition in topic.partition_indexes
                    ],
                )
                for topic in request.topics or ()
            ]
        )
    return OffsetFetchResponse(
        error_code=fetched.error,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.topic,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=offset.partition,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                        error_code=_partition_error(offset, error),
                    )
                    for offset in topic.partitions
                ],
            )
            for topic, error in fetched.topics
        ],
    )
