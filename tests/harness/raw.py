"""Talk to a broker over a plain blocking socket, one frame at a time.

``RawClient`` pipelines, sends malformed bytes and sees closes; the answers are read strictly (see ``wire``). Everything
waits by deadline, nothing sleeps a guessed time.
"""

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tests.harness import wire
from tests.harness.wire import Struct

EVENTUALLY_S = 30.0
NO_ID = bytes(16)
_T = TypeVar("_T")


class ConnectionClosed(Exception):
    """The broker closed the connection where an answer was expected."""


def eventually(check: Callable[[], _T], *, within_s: float = EVENTUALLY_S, every_s: float = 0.02, what: str = "") -> _T:
    """Call ``check`` until it returns something true; fail after the deadline with its last value or error."""
    deadline = time.monotonic() + within_s
    while True:
        error: BaseException | None = None
        result = None
        try:
            result = check()
            if result:
                return result
        except (AssertionError, ConnectionClosed, OSError) as failure:
            error = failure
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what or check} (last: {result!r})") from error
        time.sleep(every_s)


class RawClient:
    """One connection. Correlation ids count up from 1; ``request`` checks that the answer carries its own."""

    def __init__(self, address: tuple[str, int], *, client_id: str | None = "raw", timeout_s: float = EVENTUALLY_S):
        self.address = address
        self.client_id = client_id
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self._versions: dict[int, tuple[int, int]] | None = None

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # --- frames

    def frame(
        self, api: str, version: int, /, header_tags: Mapping[int, bytes] = {}, body: bytes | None = None, **values: Any
    ) -> tuple[int, bytes]:
        """Build a request with its length; return its correlation id and its bytes."""
        schema = wire.request_schema(api, version)
        correlation_id = next(self._correlation_ids)
        payload = wire.encode_header(
            wire.API_KEYS[api], version, correlation_id, self.client_id, flexible=schema.__flexible__, tags=header_tags
        ) + (wire.encode_struct(schema, values) if body is None else body)
        return correlation_id, struct.pack(">i", len(payload)) + payload

    def custom_frame(self, api_key: int, version: int, body: bytes, *, flexible: bool) -> tuple[int, bytes]:
        """Build a request whose key or version no schema knows."""
        correlation_id = next(self._correlation_ids)
        payload = wire.encode_header(api_key, version, correlation_id, self.client_id, flexible=flexible) + body
        return correlation_id, struct.pack(">i", len(payload)) + payload

    def send(self, api: str, version: int, /, **values: Any) -> int:
        correlation_id, data = self.frame(api, version, **values)
        self.socket.sendall(data)
        return correlation_id

    def receive_frame(self) -> bytes:
        return self._receive(struct.unpack(">i", self._receive(4))[0])

    def receive(self, api: str, version: int) -> tuple[int, Struct]:
        return wire.decode_answer(api, version, self.receive_frame())

    def request(self, api: str, version: int, /, **values: Any) -> Struct:
        """Send one request and read its answer to the last byte."""
        correlation_id = self.send(api, version, **values)
        answered, body = self.receive(api, version)
        assert answered == correlation_id, (answered, correlation_id)
        return body

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionResetError as error:
                raise ConnectionClosed(f"reset after {len(data)} of {size} bytes") from error
            if not piece:
                raise ConnectionClosed(f"closed after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def expect_close(self, *, within_s: float = EVENTUALLY_S) -> None:
        """Assert that the broker closes without sending a single byte; an idle connection it keeps for much longer."""
        self.socket.settimeout(within_s)
        try:
            data = self.socket.recv(4096)
        except ConnectionResetError:
            return
        except TimeoutError:
            raise AssertionError(f"still open after {within_s} s") from None
        assert data == b"", f"answered {data[:60]!r}"

    def expect_silence(self, *, for_s: float) -> None:
        """Assert that the connection is open and nothing arrives for a while."""
        self.socket.settimeout(for_s)
        with contextlib.suppress(TimeoutError):
            data = self.socket.recv(4096)
            raise AssertionError(f"closed or answered: {data[:60]!r}")
        self.socket.settimeout(EVENTUALLY_S)

    # --- versions

    def versions(self) -> dict[int, tuple[int, int]]:
        """Ask once which versions the broker offers: {api key: (min, max)}."""
        if self._versions is None:
            answer = self.request("api_versions", 0)
            assert answer.error_code == 0
            self._versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        return self._versions

    def offers(self, api: str, version: int) -> bool:
        low, high = self.versions().get(wire.API_KEYS[api], (0, -1))
        return low <= version <= high

    def highest(self, api: str) -> int:
        return self.versions()[wire.API_KEYS[api]][1]

    def offered(self, api: str, *wanted: int) -> list[int]:
        """Of these versions (default: all) those that the broker offers; Produce 0-2 are offered only for show."""
        low, high = self.versions().get(wire.API_KEYS[api], (0, -1))
        if api == "produce":
            low = max(low, 3)
        return [version for version in (wanted or range(low, high + 1)) if low <= version <= high]

    # --- topics

    def metadata(self, names: Sequence[str] | None, *, version: int = 12, create: bool = False) -> Struct:
        topics = None if names is None else [{"name": name} for name in names]
        if names is None and version == 0:
            topics = []
        options: dict[str, Any] = {"allow_auto_topic_creation": create} if version >= 4 else {}
        return self.request("metadata", version, topics=topics, **options)

    def topic(self, name: str) -> Struct:
        """Ask for one topic without creating it."""
        [topic] = self.metadata([name]).topics
        return topic

    def topic_names(self) -> set[str]:
        return {topic.name for topic in self.metadata(None).topics}

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic (config dots written as underscores), wait until it has leaders, return its id."""
        rows = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        answer = self.request(
            "create_topics",
            7,
            topics=[{"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": rows}],
            timeout_ms=15000,
        )
        assert answer.topics[0].error_code == 0, answer.topics[0]
        return self.wait_for_topic(name, partitions)

    def wait_for_topic(self, name: str, partitions: int) -> bytes:
        """Wait until every partition has a leader that has begun to lead; return the topic's id."""
        wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]

        def ready() -> bytes | None:
            topic = self.topic(name)
            if topic.error_code != 0 or {row.partition_index for row in topic.partitions} != set(range(partitions)):
                return None
            answer = self.request("list_offsets", 1, replica_id=-1, topics=[{"name": name, "partitions": wanted}])
            leads = all(row.error_code == 0 for row in answer.topics[0].partitions)
            return topic.topic_id if leads else None

        return eventually(ready, what=f"topic {name} with {partitions} leaders")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until metadata no longer lists it."""
        answer = self.request("delete_topics", 6, topics=[{"name": name}], timeout_ms=15000)
        assert answer.responses[0].error_code == 0, answer
        eventually(lambda: name not in self.topic_names(), what=f"{name} gone")

    # --- data

    def produce(
        self,
        topic: str,
        batch: bytes | None,
        partition: int = 0,
        *,
        acks: int = -1,
        version: int = 9,
        transactional_id: str | None = None,
    ) -> Struct:
        """Produce to one partition; return the partition's part of the answer."""
        answer = self.request("produce", version, **produce_values(topic, {partition: batch}, acks, transactional_id))
        assert [row.name for row in answer.responses] == [topic]
        [result] = answer.responses[0].partition_responses
        assert result.index == partition
        return result

    def append(self, topic: str, batch: bytes, partition: int = 0, **options: Any) -> int:
        """Produce and insist on success; return the base offset."""
        result = self.produce(topic, batch, partition, **options)
        assert result.error_code == 0, result
        return result.base_offset

    def fetch(self, topic: str, offset: int, partition: int = 0, *, version: int = 11, **options: Any) -> Struct:
        """Fetch one partition without a session (by id from v13); return its part of the answer."""
        topic_id = options.pop("topic_id", None)
        if version >= 13 and topic_id is None:
            topic_id = self.topic(topic).topic_id
        row = fetch_row(partition, offset, **{key: options.pop(key) for key in _ROW_OPTIONS if key in options})
        named = {"topic_id": topic_id} if version >= 13 else {"topic": topic}
        answer = self.request(
            "fetch", version, **fetch_values([{**named, "partitions": [row]}], version=version, **options)
        )
        if version >= 7:
            assert answer.error_code == 0, answer
        [[result]] = [entry.partitions for entry in answer.responses]
        assert result.partition_index == partition
        return result

    def fetch_all(self, topic: str, partition: int = 0, offset: int = 0, **options: Any) -> bytes:
        """Fetch from an offset to the high watermark; return the record bytes of all answers, joined."""
        from tests.harness import batches

        data = bytearray()
        while True:
            result = self.fetch(topic, offset, partition, **options)
            assert result.error_code == 0, result
            found = batches.parse(result.records)
            if not found:
                assert offset >= result.high_watermark, (offset, result.high_watermark)
                return bytes(data)
            for batch in found:
                data += batch.raw
            offset = found[-1].next_offset

    def list_offset(
        self, topic: str, timestamp: int, partition: int = 0, *, version: int = 5, isolation: int = 0
    ) -> Struct:
        """Look up one offset; return the partition's part of the answer."""
        options: dict[str, Any] = {"isolation_level": isolation} if version >= 2 else {}
        answer = self.request(
            "list_offsets",
            version,
            replica_id=-1,
            topics=[{"name": topic, "partitions": [{"partition_index": partition, "timestamp": timestamp}]}],
            **options,
        )
        [[result]] = [entry.partitions for entry in answer.topics]
        return result

    def end_offset(self, topic: str, partition: int = 0) -> int:
        result = self.list_offset(topic, -1, partition)
        assert result.error_code == 0, result
        return result.offset

    def start_offset(self, topic: str, partition: int = 0) -> int:
        result = self.list_offset(topic, -2, partition)
        assert result.error_code == 0, result
        return result.offset

    def producer_id(self) -> int:
        """Get a fresh producer id (its epoch is 0)."""

        def ask() -> Struct | None:
            answer = self.request("init_producer_id", 1, transactional_id=None, transaction_timeout_ms=60000)
            return answer if answer.error_code == 0 else None

        return eventually(ask, what="producer id").producer_id


_ROW_OPTIONS = ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")


def produce_values(
    topic: str, parts: Mapping[int, bytes | None], acks: int = -1, transactional_id: str | None = None
) -> dict[str, Any]:
    """Fields of a Produce request (v3-v12) to partitions of one topic."""
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": 15000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": index, "records": data} for index, data in parts.items()]}
        ],
    }


def fetch_row(partition: int, offset: int, *, partition_max_bytes: int = 50_000_000, **fields: Any) -> dict[str, Any]:
    """One partition of a Fetch request."""
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes, **fields}


def fetch_values(
    topics: Sequence[Mapping[str, Any]],
    *,
    version: int,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
    isolation: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """Fields of a Fetch request; sessions by ``session_id``, ``session_epoch`` and ``forgotten_topics_data``."""
    values: dict[str, Any] = {
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation,
        "topics": topics,
        **fields,
    }
    if version < 15:
        values["replica_id"] = -1
    return values


@contextlib.contextmanager
def connections(address: tuple[str, int], count: int, **options: Any) -> Iterator[list[RawClient]]:
    """Open several connections and close them all at the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(RawClient(address, **options)) for _ in range(count)]
