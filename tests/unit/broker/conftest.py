"""A controller over a real metadata log whose syncs the test controls, and requests as the dispatcher makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.api.route import EncodedResponse, RequestContext
from broker.metadata.controller.brokers import Registration
from broker.metadata.controller.run import Controller, SnapshotRules
from broker.metadata.controller.topics import TopicRules
from broker.metadata.image import EndpointImage
from broker.metadata.log import MAX_BATCH_BYTES, ClusterLog, Voter, format_metadata_dir
from broker.quota.clients import RequestMeter
from broker.runtime.tasks import TaskOwner
from config.resolve import Resolver
from config.views import BrokerConfig, GroupConfig, ListenerConfig, LogConfig
from protocol.codec import decode, encode_bytes
from protocol.messages import RESPONSES
from storage.env.clock import Clock, SeededRng, SystemClock
from storage.env.posix import PosixFileSystem
from storage.log.partition_log import PartitionLog
from storage.types import TopicPartition
from tests.harness.exported import ExportedParts, exported_parts

NODE_ID = 1
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_ID = bytes.fromhex("569aa203c4d24342a22aa3e747860858")


class Node:
    """Starts controllers on one directory, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log_dirs: tuple[bytes, ...] = (DIRECTORY_ID,)
        self.where: dict[TopicPartition, bytes] = {}  # in which directory each log is
        self.voter = Voter(NODE_ID, DIRECTORY_ID)
        self.snapshots = SnapshotRules(max_bytes=20_971_520)
        self.segment_bytes = LogConfig().segment_bytes
        self.clock: Clock = SystemClock()
        self.config = BrokerConfig(node_id=NODE_ID, num_partitions=2)
        self.flushes = 0
        self.flush: Callable[[Callable[[], Any]], Any] | None = None
        self.tasks = TaskOwner("test")
        self._seed = 0

    @property
    def log_path(self) -> Path:
        return self.directory / "__cluster_metadata-0"

    def open_log(self) -> ClusterLog:
        fs, clock = PosixFileSystem(), self.clock
        self._seed += 1
        if not self.log_path.exists():
            format_metadata_dir(fs, clock, str(self.directory), str(self.log_path), self.voter)
        log = PartitionLog.open(
            fs,
            clock,
            SeededRng(self._seed),
            str(self.log_path),
            TopicPartition("__cluster_metadata", 0),
            LogConfig(
                max_message_bytes=MAX_BATCH_BYTES,
                segment_bytes=self.segment_bytes,
                retention_ms=-1,
                file_delete_delay_ms=1_000,
            ),
        )
        return ClusterLog(fs, clock, log, self.voter, CLUSTER_ID)

    def controller(self) -> Controller:
        resolver = Resolver({})
        return Controller(
            self.open_log(),
            TopicRules(
                self.config,
                GroupConfig(offsets_topic_num_partitions=3),
                lambda image: resolver,
            ),
            self.snapshots,
            self.clock,
            SeededRng(self._seed),
            self._run_blocking,
            self.tasks,
        )

    def registration(self) -> Registration:
        endpoint = EndpointImage("PLAINTEXT", "127.0.0.1", 9092, 0)
        return Registration(NODE_ID, bytes(15) + bytes([200 + self._seed]), (endpoint,), None, self.log_dirs)

    async def start(self) -> Controller:
        controller = self.controller()
        controller.load()
        await controller.start(self.registration(), self.where)
        return controller

    async def _run_blocking(self, call: Callable[[], Any]) -> Any:
        self.flushes += 1
        if self.flush is not None:
            return await self.flush(call)
        return call()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def exported(tmp_path: Path) -> ExportedParts:
    return exported_parts(tmp_path)


PLAIN = ListenerConfig("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
def ask() -> Ask:
    """Send a request in a version to the family that serves it and return the response as a client reads it."""

    async def call(
        family: Any,
        request: Any,
        version: int,
        listener: ListenerConfig = PLAIN,
        meter: RequestMeter | None = None,
    ) -> Any:
        route = next(route for route in family.routes() if route.api_key == request.API_KEY)
        assert route.serves(version)
        context = RequestContext(1, listener, "127.0.0.1", int(request.API_KEY), version, 7, "test")
        context.meter = meter
        received = decode(type(request), version, encode_bytes(request, version))
        response = await route.handler(received, context)
        body = response.body if isinstance(response, EncodedResponse) else encode_bytes(response, version)
        return decode(RESPONSES[request.API_KEY], version, body)

    return call
