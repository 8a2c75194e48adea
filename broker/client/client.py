"""The client: asks any broker, the one that leads a partition, or the one that coordinates a group.

    with Client("127.0.0.1:9092") as client:
        names = client.metadata().topics
        answer = client.ask(DescribeClusterRequest())
        offsets = client.ask_leaders(partitions, build_request, results_of)
        group = client.ask_coordinator(GROUP, "my-group", OffsetFetchRequest(…), codes=…)

A request goes to a broker by its advertised address, over one connection that is kept. An answer whose error says that
it was sent to the wrong place, or too early, is followed by another look at the metadata and another try, with growing
pauses, until `total_timeout_s` have passed; so is a broker that cannot be reached, unless it is the way in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from broker.client.attempts import Attempts
from broker.client.cluster import NO_LEADER, Broker, Cluster, TopicPartition
from broker.client.connection import Connection
from broker.client.errors import ClientError, ConnectionFailed, MissingPartition, Refused, check, is_retriable, only
from broker.client.settings import Settings, parse_bootstrap
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import REQUESTS
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

T = TypeVar("T")

GROUP = 0
"""The kind of coordinator that groups have."""

Result = tuple[TopicPartition, int, T]
"""What an answer says of one partition: its error code and its value."""


def top_code(response: Any) -> list[int]:
    """Return the error code of a response that has one for all it says."""
    return [response.error_code]


class Client:
    """A way into a cluster. Not for several threads."""

    def __init__(self, bootstrap: str, settings: Settings | None = None) -> None:
        """Take the addresses; nothing is connected before something is asked."""
        self.settings = settings or Settings()
        self._addresses = parse_bootstrap(bootstrap)
        self._entrance: Connection | None = None  # the bootstrap server that answered; changed by _enter, _drop
        self._connections: dict[int, Connection] = {}  # by broker id; changed by connection, _drop
        self._brokers: dict[int, Broker] = {}  # as of the newest metadata; changed by metadata
        self._coordinators: dict[tuple[int, str], int] = {}  # as far as asked for; changed by coordinator

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for connection in {*self._connections.values(), *filter(None, (self._entrance,))}:
            connection.close()
        self._connections.clear()
        self._entrance = None

    # --- one broker

    def ask(
        self, message: Any, *, broker: int | None = None, at_most: int | None = None, timeout_s: float | None = None
    ) -> Any:
        """Ask a broker, or any. A connection that was kept and has gone meanwhile is made anew, once.

        Raises: ConnectionFailed, UnsupportedApi; error codes are left to the caller.
        """
        connection = self.connection(broker)
        is_kept = connection.requests > 0
        try:
            return connection.ask(message, at_most=at_most, timeout_s=timeout_s)
        except ConnectionFailed as failure:
            self._drop(connection)
            if not is_kept or isinstance(failure.__cause__, TimeoutError):
                raise
        return self.connection(broker).ask(message, at_most=at_most, timeout_s=timeout_s)

    def ask_retrying(
        self,
        message: Any,
        *,
        broker: int | None = None,
        codes: Callable[[Any], Sequence[int]] = top_code,
        at_most: int | None = None,
    ) -> Any:
        """Ask again while nothing was done and all that stands in the way may pass; `codes` finds the error codes.

        That a topic does not exist will not pass: who is asked here knows all of them.
        """
        attempts = self.attempts()
        while True:
            response = self.ask(message, broker=broker, at_most=at_most)
            found = codes(response)
            if not found or not all(map(_passes, found)) or not attempts.may_go_on():
                return response
            attempts.pause()

    def connection(self, broker: int | None = None) -> Connection:
        """Return the connection to a broker, or to any; made when first asked for. Raises: ConnectionFailed."""
        if broker is None:
            return self._entrance or next(iter(self._connections.values()), None) or self._enter()
        connection = self._connections.get(broker)
        if connection is None:
            connection = self._connections[broker] = self._connect(broker)
        return connection

    def attempts(self, total_timeout_s: float | None = None) -> Attempts:
        """Begin a series of tries of one call."""
        return Attempts(self.settings, self.settings.total_timeout_s if total_timeout_s is None else total_timeout_s)

    def drop(self, broker: int) -> None:
        """Close a connection that failed; the next request to this broker makes another."""
        connection = self._connections.get(broker)
        if connection is not None:
            self._drop(connection)

    # --- the cluster

    def metadata(self, topics: Iterable[str] | None = None, *, may_create: bool = False) -> Cluster:
        """Ask for the brokers and for topics; none given are all topics, an empty list is only the brokers.

        A topic that does not exist is in the answer with its error code.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)
        cluster = Cluster(self.ask(request))
        self._brokers = cluster.brokers
        return cluster

    def controller(self) -> int | None:
        """Return whom to ask for changes of the cluster; None where any broker will do."""
        controller = self.metadata([]).controller_id
        return None if controller < 0 else controller

    # --- leaders

    def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[list[TopicPartition]], Any],
        results: Callable[[Any], Iterable[Result[T]]],
    ) -> dict[TopicPartition, tuple[Refused | None, T | None]]:
        """Ask all leaders, each for its partitions, and again for those whose error may pass.

        Shape: for every partition the refusal that stayed, or None, and the value that its last answer had.
        Raises: ConnectionFailed when a leader cannot be reached until the end.
        """
        waiting = list(partitions)
        done: dict[TopicPartition, tuple[Refused | None, T | None]] = {}
        attempts = self.attempts()
        while waiting:
            failure: ConnectionFailed | None = None
            for leader, led in self._by_leader(waiting, done).items():
                try:
                    response = self.ask(build(led), broker=leader)
                except ConnectionFailed as error:
                    failure = error
                    refused = Refused(ErrorCode.NETWORK_EXCEPTION, error.message)
                    done.update((partition, (refused, None)) for partition in led)
                    continue
                silent = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {leader} said nothing about it")
                done.update((partition, (silent, None)) for partition in led)
                for partition, code, value in results(response):
                    done[partition] = Refused(code) if code else None, value
            waiting = [partition for partition in waiting if _may_pass(done[partition][0])]
            if waiting and not attempts.may_go_on():
                if failure is not None:
                    raise failure
                break
            if waiting:
                attempts.pause()
        return done

    def _by_leader(
        self, partitions: list[TopicPartition], done: dict[TopicPartition, tuple[Refused | None, Any]]
    ) -> dict[int, list[TopicPartition]]:
        """Sort partitions by leader; those that have none are done with for now."""
        cluster = self.metadata(sorted({partition.topic for partition in partitions}))
        led: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = cluster.leader(partition)
            if leader != NO_LEADER:
                led.setdefault(leader, []).append(partition)
            elif cluster.partition(partition) is not None:
                done[partition] = Refused(ErrorCode.LEADER_NOT_AVAILABLE), None
            else:
                done[partition] = (
                    MissingPartition(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {partition}."),
                    None,
                )
        return led

    # --- coordinators

    def ask_coordinator(
        self,
        kind: int,
        name: str,
        message: Any,
        *,
        codes: Callable[[Any], Sequence[int]] = top_code,
        at_most: int | None = None,
    ) -> Any:
        """Ask the coordinator of a group or a transactional id, also if it moves or still loads; `codes` finds errors.

        Raises: Refused when there is no coordinator, ConnectionFailed.
        """
        attempts = self.attempts()
        while True:
            try:
                response = self.ask(message, broker=self.coordinator(kind, name), at_most=at_most)
                if not any(map(is_retriable, codes(response))) or not attempts.may_go_on():
                    return response
            except ConnectionFailed:
                if not attempts.may_go_on():
                    raise
            self._coordinators.pop((kind, name), None)
            attempts.pause()

    def coordinator(self, kind: int, name: str) -> int:
        """Return who coordinates a group or a transactional id. Raises: Refused."""
        found = self._coordinators.get((kind, name))
        if found is not None:
            return found
        request = REQUESTS[ApiKey.FIND_COORDINATOR](key=name, key_type=kind, coordinator_keys=[name])
        response = self.ask_retrying(request, codes=lambda response: [_coordinator_in(response).error_code])
        row = _coordinator_in(response)
        check(row.error_code, row.error_message)
        self._brokers[row.node_id] = Broker(row.node_id, row.host, row.port, None)
        self._coordinators[kind, name] = row.node_id
        node_id: int = row.node_id
        return node_id

    # --- connections

    def _enter(self) -> Connection:
        """Connect to the first bootstrap server that answers. Raises: ConnectionFailed, of the last one."""
        failure: ConnectionFailed | None = None
        for host, port in self._addresses:
            try:
                self._entrance = Connection(host, port, self.settings)
                return self._entrance
            except ConnectionFailed as error:
                failure = error
        assert failure is not None, "there is an address at least"
        raise failure

    def _connect(self, broker: int) -> Connection:
        """Connect to a broker as it advertises itself; the way in serves, if it can only be that broker.

        So a cluster of one is reached wherever its way in is, also where its advertised address means nothing.
        """
        if broker not in self._brokers:
            self.metadata([])
        found = self._brokers.get(broker)
        if found is None:
            known = ", ".join(map(str, sorted(self._brokers)))
            raise ClientError(f"there is no broker {broker}; the brokers are {known}")
        entrance = self._entrance
        is_only = len(self._brokers) == 1
        if entrance is not None and (is_only or (entrance.host, entrance.port) == (found.host, found.port)):
            return entrance
        try:
            return Connection(found.host, found.port, self.settings)
        except ConnectionFailed as failure:
            if (found.host, found.port) in self._addresses:
                raise
            raise ConnectionFailed(f"{failure.message} (as broker {broker} advertises itself)") from failure

    def _drop(self, connection: Connection) -> None:
        """Forget a connection that failed."""
        connection.close()
        self._connections = {node: kept for node, kept in self._connections.items() if kept is not connection}
        if self._entrance is connection:
            self._entrance = None


def _coordinator_in(response: Any) -> Any:
    """Return the row of the one coordinator asked for, in whichever layout it came."""
    return only(response.coordinators) if response.coordinators else response


def _passes(code: int) -> bool:
    return is_retriable(code) and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _may_pass(refused: Refused | None) -> bool:
    return refused is not None and not isinstance(refused, MissingPartition) and is_retriable(refused.code)
