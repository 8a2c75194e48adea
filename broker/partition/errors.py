"""Failures of the partition room: each says which partition and what this broker knows of it."""

from __future__ import annotations

from broker.runtime.failures import Consequence


class PartitionError(Exception):
    """Parent of what can be wrong with a partition as a place to read from or write to."""


class UnknownPartition(PartitionError):
    """No such topic or partition."""


class UnknownTopicId(PartitionError):
    """No topic has this id."""


class InconsistentTopicIdRequested(PartitionError):
    """The topic id of the request is known, but the log belongs to another incarnation."""


class NotLeader(PartitionError):
    """The partition exists, but this broker does not lead it."""

    def __init__(self, leader_id: int, leader_epoch: int) -> None:
        super().__init__(f"led by broker {leader_id} in epoch {leader_epoch}")
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class FencedLeaderEpoch(PartitionError):
    """The request carries an older leader epoch than ours."""


class UnknownLeaderEpoch(PartitionError):
    """The request carries a newer leader epoch than ours."""


class NotEnoughReplicas(PartitionError):
    """acks=all, and fewer replicas are in sync than min.insync.replicas asks for."""


class PartitionOffline(PartitionError, Consequence):
    """The log directory of the partition has failed."""


class RecordsMustStay(PartitionError):
    """The topic's cleanup policy does not let records be deleted."""


class SearchTakesTooLong(PartitionError):
    """The time of the request is up, and what is due is not known; the search goes on."""


class MoveRefused(PartitionError):
    """Parent of what is wrong with a move to another log directory."""


class FutureNameTooLong(MoveRefused):
    """The folder of the copy would have a longer name than file systems take."""


class LogDirNotFound(MoveRefused):
    """The path is none of log.dirs."""


class LogDirOffline(MoveRefused):
    """The directory has failed; or another one has, which may have a copy of the partition already."""


class LogDirCordoned(MoveRefused):
    """The directory takes no new logs."""


class NoReplicaHere(MoveRefused):
    """This broker has no replica of the partition; the directory is remembered for when it gets one."""
