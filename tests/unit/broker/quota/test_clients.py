"""What a request is charged, and how long it is throttled: quotas on a clock that the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.quota import clients as clients_module
from broker.quota import kind as kind_module
from broker.quota.clients import ClientQuotas, RequestMeter
from broker.quota.entities import Sharers
from broker.quota.kind import EXPIRY_MS, LONGEST_KNOWN_CLIENT
from broker.quota.rates import INT_MAX, Windows
from broker.runtime.tasks import start_inline

ANN = "User:ann"
ANY_ID = (("client-id", None),)


class Bench:
    """Quotas and their clock."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000
        self.quotas = ClientQuotas(Windows(), Windows(), lambda: self.now_ns)

    def set(self, **values: float) -> None:
        self.quotas.follow({ANY_ID: values} if values else {})

    def meter(self, request_bytes: int = 0, client_id: str = "app", principal: str = ANN) -> RequestMeter:
        return self.quotas.meter(principal, client_id, request_bytes, self.now_ns)

    def produce(self, request_bytes: int, *, is_answered: bool = True, **who: Any) -> int:
        meter = self.meter(request_bytes, **who)
        meter.produced(is_answered=is_answered)
        return meter.settle()

    def pass_ms(self, duration_ms: float) -> None:
        self.now_ns += int(duration_ms * 1_000_000)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_quotas_are_active_while_any_client_has_one(bench: Bench) -> None:
    assert not bench.quotas.is_active
    bench.quotas.follow({(("ip", None),): {"connection_creation_rate": 1.0}})
    assert not bench.quotas.is_active
    bench.set(consumer_byte_rate=1)
    assert bench.quotas.is_active and not bench.quotas.measures_time
    bench.set(request_percentage=1)
    assert bench.quotas.is_active and bench.quotas.measures_time
    bench.set()
    assert not bench.quotas.is_active


def test_only_who_has_a_quota_is_held_to_any(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "MAX_KNOWN_CLIENTS", 2)
    bench.quotas.follow(
        {(("client-id", "app"),): {"consumer_byte_rate": 1.0}, (("user", "bob"),): {"producer_byte_rate": 1.0}}
    )
    for _ in range(2):
        assert (
            bench.quotas.holds(ANN, "app")
            and bench.quotas.holds("User:bob", "")
            and bench.quotas.holds("User:bob", "x")
        )
        assert not bench.quotas.holds(ANN, "x") and not bench.quotas.holds(ANN, "")
    bench.set(request_percentage=1)
    assert bench.quotas.holds(ANN, "x") and not bench.quotas.holds("User:bob", "")


def test_what_is_produced_within_ten_windows_goes_through_and_the_rest_waits(bench: Bench) -> None:
    bench.set(producer_byte_rate=100)
    assert bench.produce(1_000) == 0
    assert bench.produce(500) == 5_000
    assert bench.produce(500, client_id="other") == 0


def test_those_who_share_a_quota_share_its_use(bench: Bench) -> None:
    bench.quotas.follow({(("user", "ann"),): {"producer_byte_rate": 100.0}})
    assert bench.produce(1_000, client_id="a") == 0
    assert bench.produce(100, client_id="b") == 1_000
    assert bench.produce(9_000, client_id="a", principal="User:bob") == 0
    assert bench.produce(1, client_id="", principal=ANN) > 0


def test_a_changed_quota_is_held_against_what_was_done_before(bench: Bench) -> None:
    bench.set(producer_byte_rate=1_000)
    bench.produce(5_000)
    bench.set(producer_byte_rate=100)
    assert bench.produce(0) == 40_000
    bench.set(producer_byte_rate=1_000, consumer_byte_rate=1)
    assert bench.produce(0) == 0
    bench.set(consumer_byte_rate=1)
    assert bench.quotas.produce.use_count == 0


def test_the_longest_of_several_throttle_times_counts_and_is_charged_to_its_quota(bench: Bench) -> None:
    bench.set(producer_byte_rate=100, request_percentage=1)
    meter = bench.meter(1_100)
    bench.pass_ms(200)
    meter.produced(is_answered=True)
    assert meter.settle() == 1_000  # both ask for a second, the bytes came first
    assert bench.quotas.produce.most_throttled(1)[0][1].throttled_ms == 1_000
    assert bench.quotas.request.most_throttled(1)[0][1].throttled_count == 0


def test_who_asks_for_no_answer_is_held_to_bytes_but_not_to_time(bench: Bench) -> None:
    bench.set(producer_byte_rate=100, request_percentage=0.001)
    assert bench.produce(1_000, is_answered=False) == 0
    assert bench.produce(100, is_answered=False) == 1_000


def test_time_is_counted_in_percent_of_one_thread_and_asks_for_a_window_at_most(bench: Bench) -> None:
    bench.set(request_percentage=1)
    meter = bench.meter()
    bench.pass_ms(100)
    assert meter.settle() == 0  # 10 % for a second is 1 % for ten
    meter = bench.meter()
    bench.pass_ms(5)
    assert meter.settle() == 495  # the rate began with the end of the first request, 5 ms ago
    meter = bench.meter()
    bench.pass_ms(900)
    assert meter.settle() == 1_000


def test_the_time_that_the_answer_takes_is_paid_by_the_next_request(bench: Bench) -> None:
    bench.set(request_percentage=1)
    meter = bench.meter()
    assert meter.settle() == 0
    bench.pass_ms(105)
    meter.finish()
    assert bench.meter().settle() == 395  # the rate began with the first answer, 105 ms ago


def test_an_exempt_request_is_not_held_to_its_time(bench: Bench) -> None:
    bench.set(request_percentage=0.001)
    meter = bench.meter()
    meter.exempt()
    bench.pass_ms(500)
    assert meter.settle() == 0
    meter.finish()
    assert bench.quotas.request.use_count == 0


async def test_the_time_that_a_request_waits_is_not_counted(bench: Bench) -> None:
    bench.set(request_percentage=1)
    gate = asyncio.get_running_loop().create_future()
    meter = bench.meter()

    async def work() -> str:
        bench.pass_ms(30)
        value = await gate
        bench.pass_ms(70)
        waiting.set()
        with pytest.raises(ZeroDivisionError):
            await failing
        bench.pass_ms(5)
        return value

    failing, waiting = asyncio.get_running_loop().create_future(), asyncio.Event()
    done, rest = start_inline(meter.timed(work()))  # type: ignore[arg-type]
    assert not done
    task = asyncio.ensure_future(rest)
    await asyncio.sleep(0)
    bench.pass_ms(60_000)
    gate.set_result("value")
    await waiting.wait()
    bench.pass_ms(60_000)
    failing.set_exception(ZeroDivisionError())
    assert await task == "value"
    assert meter.settle() == 500  # 105 ms, over a rate that has just begun


def test_a_fetch_that_is_not_given_is_not_counted(bench: Bench) -> None:
    bench.set(consumer_byte_rate=100)
    meter = bench.meter()
    assert meter.fetch_limit_bytes() == 1_000
    assert meter.may_fetch(lambda: 900) and meter.settle() == 0
    meter = bench.meter()
    assert not meter.may_fetch(lambda: 300)
    assert meter.settle() == 2_000
    meter = bench.meter()
    assert meter.may_fetch(lambda: 100) and meter.settle() == 0


def test_a_batch_larger_than_all_windows_allow_gets_through_and_is_paid_for_afterwards(bench: Bench) -> None:
    bench.set(consumer_byte_rate=100)
    for _ in range(2):
        meter = bench.meter()
        assert meter.may_fetch(lambda: 5_000) and meter.settle() == 0
        meter = bench.meter()
        assert not meter.may_fetch(lambda: 1)
        assert meter.settle() > 40_000
        bench.pass_ms(40_000)


def test_a_fetch_that_another_quota_throttles_is_not_given_either(bench: Bench) -> None:
    bench.set(consumer_byte_rate=1_000_000, request_percentage=0.01)
    meter = bench.meter()
    bench.pass_ms(2)
    assert not meter.may_fetch(lambda: 300)
    assert meter.settle() == 1_000
    assert bench.quotas.fetch.most_throttled(1)[0][1].measure.total == 0


def test_the_size_of_a_fetch_is_asked_for_only_when_it_counts(bench: Bench) -> None:
    bench.set(producer_byte_rate=1)
    meter = bench.meter()
    assert meter.fetch_limit_bytes() == INT_MAX
    assert meter.may_fetch(lambda: pytest.fail("nobody has a quota of that"))


def test_strict_changes_may_overdraw_once_and_are_refused_then(bench: Bench) -> None:
    bench.set(controller_mutation_rate=2)
    meter = bench.meter()
    quota = meter.mutations(strict=True)
    assert quota is not None
    assert [quota.charge(count) for count in (20, 10, 1)] == [True, True, False]
    bench.pass_ms(1_000)
    assert meter.settle() == 3_000, "what is left of it when the answer goes out"
    quota = bench.meter().mutations(strict=True)
    assert quota is not None
    bench.pass_ms(3_000)
    assert quota.charge(0)


def test_a_strict_change_that_overdraws_is_not_throttled_itself(bench: Bench) -> None:
    bench.set(controller_mutation_rate=2)
    meter = bench.meter()
    quota = meter.mutations(strict=True)
    assert quota is not None and quota.charge(50)
    assert meter.settle() == 0


def test_permissive_changes_all_pass_and_are_throttled_at_once(bench: Bench) -> None:
    bench.set(controller_mutation_rate=2)
    meter = bench.meter()
    quota = meter.mutations(strict=False)
    assert quota is not None
    assert quota.charge(22) and quota.throttle_ms() == 0
    assert quota.charge(4) and quota.charge(4)
    assert meter.settle() == 4_000


def test_changes_on_behalf_of_a_client_do_not_throttle_its_request(bench: Bench) -> None:
    bench.set(controller_mutation_rate=2)
    meter = bench.meter()
    quota = meter.mutations_on_behalf(strict=True)
    assert quota is not None
    assert quota.charge(30) and not quota.charge(1)
    assert meter.settle() == 0
    assert bench.meter(principal="User:x", client_id="").mutations(strict=True) is None


def test_uses_are_forgotten_after_an_hour_without_any(bench: Bench) -> None:
    bench.set(producer_byte_rate=100)
    bench.produce(2_000, client_id="idle")
    bench.pass_ms(EXPIRY_MS - 1)
    bench.produce(1, client_id="busy")
    bench.quotas.forget_idle()
    assert bench.quotas.produce.use_count == 2
    bench.pass_ms(1)
    bench.quotas.forget_idle()
    assert [sharers for sharers, _ in bench.quotas.produce.most_throttled(9)] == [Sharers("", "busy")]


def test_of_too_many_uses_the_one_longest_ago_is_forgotten(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_module, "MAX_USES", 2)
    monkeypatch.setattr(kind_module, "MAX_KNOWN_CLIENTS", 2)
    bench.set(producer_byte_rate=100)
    for client_id in ("a", "b", "a", "c", "a"):
        bench.produce(400, client_id=client_id)
    assert {sharers.client_id for sharers, _ in bench.quotas.produce.most_throttled(9)} == {"a", "c"}
    assert bench.produce(0, client_id="a") == 2_000


def test_long_names_leave_room_for_fewer_uses(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_module, "MAX_NAMES_LENGTH", 100)
    bench.set(producer_byte_rate=100)
    for name in "abc":
        bench.produce(1, client_id=40 * name)
    assert {sharers.client_id[0] for sharers, _ in bench.quotas.produce.most_throttled(9)} == {"b", "c"}
    bench.produce(1, client_id=300 * "d")
    assert [sharers.client_id[0] for sharers, _ in bench.quotas.produce.most_throttled(9)] == ["d"]


def test_what_holds_for_a_client_of_a_long_name_is_not_remembered(bench: Bench) -> None:
    bench.set(producer_byte_rate=100)
    for client_id, is_remembered in ((LONGEST_KNOWN_CLIENT * "x", True), ((LONGEST_KNOWN_CLIENT + 1) * "x", False)):
        assert bench.quotas.holds(ANN, client_id)
        assert ((ANN, client_id) in bench.quotas._held) is is_remembered
