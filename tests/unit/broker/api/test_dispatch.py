"""From a frame to its answer, or to a closed connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.dispatch import Dispatcher
from broker.api.route import EncodedResponse, Plain, RequestContext, Route
from broker.metrics.instruments import BrokerStats
from broker.net.connection import CloseConnection
from broker.partition.purgatory import Parked
from broker.quota.clients import ClientQuotas
from broker.quota.rates import Windows
from protocol.api_keys import ApiKey
from protocol.codec import decode, encode_bytes
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from tests.harness.hosted import LISTENER

MUTES: list[int] = []
CONNECTION: Any = SimpleNamespace(context=RequestContext(3, LISTENER, "10.0.0.9"), mute=MUTES.append)
LIST_GROUPS_V0 = bytes.fromhex("0010 0000 0000002a 0003 617070")
"""Key 16, version 0, correlation id 42, client id "app"."""


class Bench:
    """A dispatcher with one handler for ListGroups and one for ApiVersions."""

    def __init__(self) -> None:
        self.stats = BrokerStats()
        self.contexts: list[RequestContext] = []
        self.requests: list[Any] = []
        self.answer: Callable[[], Any] = lambda: ListGroupsResponse(error_code=7)
        self.gate: asyncio.Future[None] | None = None
        ticks = count(0, 1_000_000)
        self.quotas = ClientQuotas(Windows(), Windows(), lambda: next(ticks))
        routes = {
            ApiKey.LIST_GROUPS: Route(ApiKey.LIST_GROUPS, 0, 4, self._handle),
            ApiKey.API_VERSIONS: Route(ApiKey.API_VERSIONS, 0, 4, self._handle),
            ApiKey.PRODUCE: Route(ApiKey.PRODUCE, 0, 13, self._handle, served_from=3),
            ApiKey.WRITE_TXN_MARKERS: Route(ApiKey.WRITE_TXN_MARKERS, 1, 2, self._handle, is_exempt=True),
        }
        self.dispatcher = Dispatcher(routes, self.stats, self.quotas, lambda: next(ticks))

    async def _handle(self, request: Any, context: RequestContext) -> Any:
        self.requests.append(request)
        self.contexts.append(replace(context))
        if self.gate is not None:
            await self.gate
        return self.answer()

    def run(self, frame: bytes) -> tuple[bool, Any]:
        return self.dispatcher.execute(memoryview(bytearray(frame)), CONNECTION)

    def answered(self, frame: bytes) -> bytes:
        done, pieces = self.run(frame)
        assert done
        return b"".join(pieces)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_an_answer_is_framed_and_carries_the_correlation_id(bench: Bench) -> None:
    whole = bench.answered(LIST_GROUPS_V0)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert whole[4:8] == bytes.fromhex("0000002a")
    response = decode(ListGroupsResponse, 0, whole[8:])
    assert (response.error_code, response.groups) == (7, [])
    assert bench.requests == [ListGroupsRequest()]


def test_a_handler_is_told_who_asked(bench: Bench) -> None:
    bench.answered(LIST_GROUPS_V0)
    (context,) = bench.contexts
    assert (context.connection_id, context.client_host, context.client_id, context.listener) == (
        3,
        "10.0.0.9",
        "app",
        LISTENER,
    )
    assert (context.api_key, context.api_version, context.correlation_id) == (ApiKey.LIST_GROUPS, 0, 42)


def test_a_response_encoded_before_gets_header_and_frame(bench: Bench) -> None:
    bench.answer = lambda: EncodedResponse(encode_bytes(ListGroupsResponse(error_code=7), 0))
    before = bench.answered(LIST_GROUPS_V0)
    bench.answer = lambda: ListGroupsResponse(error_code=7)
    assert bench.answered(LIST_GROUPS_V0) == before


def test_a_request_that_wants_no_answer_gets_none(bench: Bench) -> None:
    bench.answer = lambda: None
    assert bench.run(LIST_GROUPS_V0) == (True, [])


async def test_a_handler_that_waits_is_carried_on_by_whoever_owns_the_connection(bench: Bench) -> None:
    bench.gate = asyncio.get_running_loop().create_future()
    done, work = bench.run(LIST_GROUPS_V0)
    assert not done
    task = asyncio.ensure_future(work)
    await asyncio.sleep(0)
    assert not task.done()
    bench.gate.set_result(None)
    assert b"".join(await task)[4:8] == bytes.fromhex("0000002a")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "no header"),
        (bytes.fromhex("0010 0000 0000"), "half a header"),
        (bytes.fromhex("0010 0000 0000002a 7fff 61"), "a client id longer than the frame"),
        (bytes.fromhex("0010 0004 0000002a 0000 00 ff"), "an array longer than the frame"),
    ],
)
def test_what_cannot_be_read_is_a_protocol_error(bench: Bench, frame: bytes, why: str) -> None:
    with pytest.raises(ProtocolError):
        bench.run(frame)
    assert bench.stats.refused_frames + bench.stats.of("list_groups").malformed == 1, why
    assert not bench.requests


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("7fff 0000 0000002a ffff"),  # no such key
        bytes.fromhex("0010 0063 0000002a ffff"),  # no such version
        bytes.fromhex("0010 0005 0000002a ffff 00"),  # a version the schema knows and we do not serve
        bytes.fromhex("0000 0002 0000002a ffff"),  # advertised for old clients, refused when used
        bytes.fromhex("0003 0000 0000002a ffff"),  # a key without a route
    ],
)
def test_unknown_keys_and_versions_end_the_connection(bench: Bench, frame: bytes) -> None:
    with pytest.raises(CloseConnection):
        bench.run(frame)
    assert bench.stats.refused_frames == 1
    assert not bench.requests


def test_api_versions_in_an_unknown_version_is_answered_in_its_oldest_layout(bench: Bench) -> None:
    whole = bench.answered(bytes.fromhex("0012 0063 0000002a ffff"))
    assert whole[4:8] == bytes.fromhex("0000002a")
    response = decode(ApiVersionsResponse, 0, whole[8:])
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, 4)]


def _raise() -> Any:
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize("answer", [_raise, lambda: ListGroupsResponse(groups=[None])])  # type: ignore[list-item]
def test_a_handler_or_an_encoding_that_fails_ends_its_own_connection_only(
    bench: Bench, answer: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench.answer = answer
    with pytest.raises(CloseConnection):
        bench.run(LIST_GROUPS_V0)
    assert "request failed api=LIST_GROUPS version=0" in caplog.text
    assert bench.stats.of("list_groups").failed == 1


def test_a_failed_request_without_answer_ends_the_connection(bench: Bench) -> None:
    def fail() -> None:
        CONNECTION.context.close_after = True

    bench.answer = fail
    with pytest.raises(CloseConnection):
        bench.run(LIST_GROUPS_V0)
    assert bench.stats.of("list_groups").failed == 1
    bench.answer = lambda: None
    assert bench.run(LIST_GROUPS_V0) == (True, []), "the next request is none the worse"


def test_requests_are_counted_by_api(bench: Bench) -> None:
    for _ in range(3):
        bench.answered(LIST_GROUPS_V0)
    stats = bench.stats.of("list_groups")
    assert (sum(stats.latency.counts), stats.received_bytes, stats.failed) == (3, 3 * len(LIST_GROUPS_V0), 0)
    assert stats.latency.total == pytest.approx(0.003)


def test_the_codes_of_answers_are_counted_by_api(bench: Bench) -> None:
    for code in (7, 7, 0, 16):
        bench.answer = lambda code=code: ListGroupsResponse(error_code=code)  # type: ignore[misc]
        bench.answered(LIST_GROUPS_V0)
    assert bench.stats.of("list_groups").errors == {7: 2, 16: 1}
    bench.answered(bytes.fromhex("0012 0063 0000002a ffff"))
    assert bench.stats.of("api_versions").errors == {int(ErrorCode.UNSUPPORTED_VERSION): 1}


async def test_of_a_request_that_waits_work_and_wait_are_told_apart(bench: Bench) -> None:
    bench.gate = asyncio.get_running_loop().create_future()
    _, work = bench.run(LIST_GROUPS_V0)
    bench.gate.set_result(None)
    await work
    stats = bench.stats.of("list_groups")
    assert stats.waits is not None
    assert (stats.waits.worked.total, stats.waits.waited.total) == (pytest.approx(0.001), pytest.approx(0.001))
    assert stats.latency.total == stats.waits.total.total == pytest.approx(0.002)


def test_records_are_views_into_the_frame(bench: Bench) -> None:
    """Copied once more, a produced batch would cost half of what it costs to append it."""
    body = bytes.fromhex("ffff ffff 00000064 00000001 0001 74 00000001 00000000 00000003 616263")
    frame = bytearray(bytes.fromhex("0000 0003 0000002a ffff") + body)
    bench.answer = lambda: None
    bench.dispatcher.execute(memoryview(frame), CONNECTION)
    records = bench.requests[0].topic_data[0].partition_data[0].records
    frame[-3:] = b"xyz"
    assert bytes(records) == b"xyz"


LIST_GROUPS_V1 = bytes.fromhex("0010 0001 0000002a 0003 617070")
EVERYBODY = (("client-id", None),)


@pytest.fixture
def mutes() -> list[int]:
    MUTES.clear()
    return MUTES


def test_a_request_over_its_quota_is_told_how_long_to_wait_and_mutes_its_connection(
    bench: Bench, mutes: list[int]
) -> None:
    assert decode(ListGroupsResponse, 1, bench.answered(LIST_GROUPS_V1)[8:]).throttle_time_ms == 0
    bench.quotas.follow({EVERYBODY: {"request_percentage": 0.001}})
    assert decode(ListGroupsResponse, 1, bench.answered(LIST_GROUPS_V1)[8:]).throttle_time_ms == 1_000
    assert mutes == [1_000]
    bench.quotas.follow({})
    assert decode(ListGroupsResponse, 1, bench.answered(LIST_GROUPS_V1)[8:]).throttle_time_ms == 0
    assert mutes == [1_000]


def test_a_version_that_cannot_tell_the_time_has_its_connection_muted_all_the_same(
    bench: Bench, mutes: list[int]
) -> None:
    before = bench.answered(LIST_GROUPS_V0)
    bench.quotas.follow({EVERYBODY: {"request_percentage": 0.001}})
    assert bench.answered(LIST_GROUPS_V0) == before
    assert mutes == [1_000]


@pytest.mark.parametrize(("at", "told"), [(0, 1_000), (None, 0)])
def test_a_response_encoded_before_tells_the_time_where_it_has_a_place(
    bench: Bench, mutes: list[int], at: int | None, told: int
) -> None:
    bench.answer = lambda: EncodedResponse(encode_bytes(ListGroupsResponse(error_code=7), 1), at)
    bench.quotas.follow({EVERYBODY: {"request_percentage": 0.001}})
    response = decode(ListGroupsResponse, 1, bench.answered(LIST_GROUPS_V1)[8:])
    assert (response.throttle_time_ms, response.error_code) == (told, 7)
    assert mutes == [1_000]


def test_what_brokers_send_to_each_other_is_not_throttled(bench: Bench, mutes: list[int]) -> None:
    bench.quotas.follow({EVERYBODY: {"request_percentage": 0.001}})
    bench.answer = lambda: WriteTxnMarkersResponse()
    assert bench.answered(bytes.fromhex("001b 0001 0000002a 0003 617070 00 01 00"))
    assert not mutes


def test_a_client_without_a_quota_is_not_metered(bench: Bench, mutes: list[int]) -> None:
    bench.quotas.follow({(("client-id", "other"),): {"request_percentage": 0.001}})
    assert bench.answered(LIST_GROUPS_V1) and not mutes
    bench.quotas.follow({(("client-id", "app"),): {"request_percentage": 0.001}})
    assert bench.answered(LIST_GROUPS_V1) and mutes
    assert CONNECTION.context.meter is None, "its account is closed"


async def test_a_request_that_waited_is_throttled_for_the_time_it_was_busy(bench: Bench, mutes: list[int]) -> None:
    bench.quotas.follow({EVERYBODY: {"request_percentage": 0.001}})
    bench.gate = asyncio.get_running_loop().create_future()
    _, work = bench.run(LIST_GROUPS_V1)
    bench.gate.set_result(None)
    response = decode(ListGroupsResponse, 1, b"".join(await work)[8:])
    assert response.throttle_time_ms == 1_000 and mutes == [1_000]


def test_a_request_that_ends_its_connection_mutes_nothing(bench: Bench, mutes: list[int]) -> None:
    bench.quotas.follow({EVERYBODY: {"request_percentage": 0.001}})

    def fail() -> None:
        CONNECTION.context.close_after = True

    bench.answer = fail
    with pytest.raises(CloseConnection):
        bench.run(LIST_GROUPS_V1)
    assert not mutes


# --- the way of plain requests ---


class Waiting(Parked):
    """A plain request that has parked."""

    def __init__(self) -> None:
        """Leave out the purgatory: only the dispatcher is of interest here."""

    def begin(self, answered: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        self.answered, self.failed = answered, failed


def with_plain_way(bench: Bench, outcome: Any) -> None:
    """Have ListGroups served from its frame, with this outcome."""
    plain = Plain(lambda frame: (0, 42, "app"), lambda request, context: outcome)
    routes = {
        ApiKey.LIST_GROUPS: Route(ApiKey.LIST_GROUPS, 0, 4, bench._handle, plain),
        ApiKey.API_VERSIONS: Route(ApiKey.API_VERSIONS, 0, 4, bench._handle),
    }
    bench.dispatcher = Dispatcher(routes, bench.stats, bench.quotas, count(0, 1_000_000).__next__)


def test_the_pieces_of_a_plain_request_go_out_as_they_are(bench: Bench) -> None:
    with_plain_way(bench, [b"pieces", b" and regions"])
    assert bench.answered(LIST_GROUPS_V0) == b"pieces and regions"
    assert not bench.requests
    assert sum(bench.stats.of("list_groups").latency.counts) == 1


@pytest.mark.pure  # compiled classes are not extended by others
def test_a_plain_request_that_has_parked_is_counted_when_it_is_answered_or_has_failed(bench: Bench) -> None:
    parked = Waiting()
    with_plain_way(bench, parked)
    told: list[Any] = []
    connection: Any = SimpleNamespace(
        context=RequestContext(3, LISTENER, "10.0.0.9"), answer_parked=told.append, fail_parked=told.append
    )
    stats = bench.stats.of("list_groups")
    for ended in (1, 2):
        assert bench.dispatcher.execute(memoryview(LIST_GROUPS_V0), connection) == (False, parked)
        assert sum(stats.latency.counts) == ended - 1
        if ended == 1:
            parked.answered([b"later"])
        else:
            parked.failed(ValueError("broken"))
        assert sum(stats.latency.counts) == ended
    assert told[0] == [b"later"] and isinstance(told[1], CloseConnection)
    assert (stats.failed, stats.received_bytes) == (1, 2 * len(LIST_GROUPS_V0))
    assert stats.waits is not None and stats.waits.waited.count == 2


@pytest.mark.pure
def test_a_parked_request_may_give_a_response_which_is_encoded_and_looked_at_for_errors(bench: Bench) -> None:
    parked = Waiting()
    with_plain_way(bench, parked)
    told: list[Any] = []
    connection: Any = SimpleNamespace(
        context=RequestContext(3, LISTENER, "10.0.0.9"), answer_parked=told.append, fail_parked=told.append
    )
    bench.dispatcher.execute(memoryview(LIST_GROUPS_V0), connection)
    parked.answered(ListGroupsResponse(error_code=7))
    assert b"".join(told.pop())[4:8] == bytes.fromhex("0000002a")
    assert bench.stats.of("list_groups").errors == {7: 1}
    bench.dispatcher.execute(memoryview(LIST_GROUPS_V0), connection)
    parked.answered(ListGroupsResponse(error_code=1 << 20))
    assert isinstance(told.pop(), CloseConnection), "one that cannot be encoded fails"
    assert bench.stats.of("list_groups").failed == 1
