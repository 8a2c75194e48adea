"""The handler table, and that every failure a client can see has its Kafka code."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

from broker.api.docs import documented_routes
from broker.api.errors import TABLE, code_of, known_code
from broker.api.route import Route
from broker.api.table import ensure_declared, join
from broker.coordinator import errors as coordinator_errors
from broker.coordinator.transaction import errors as transaction_errors
from broker.metadata import errors as metadata_errors
from broker.partition import errors as partition_errors
from protocol.api_keys import CONTROLLER_ONLY, ApiKey
from protocol.errors import ErrorCode
from storage import errors as storage_errors
from tests.harness.hosted import context


async def _handler(request: Any, context: Any) -> None: ...


class Family:
    def __init__(self, *routes: Route) -> None:
        self._routes = routes

    def routes(self) -> tuple[Route, ...]:
        return self._routes


@pytest.mark.pure
def test_every_served_version_is_declared() -> None:
    ensure_declared(documented_routes())


@pytest.mark.parametrize(("first", "last"), [(2, 13), (3, 14), (9, 8)])
def test_a_version_without_a_schema_is_noticed(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="PRODUCE"):
        ensure_declared({ApiKey.PRODUCE: Route(ApiKey.PRODUCE, first, last, _handler)})


def test_no_key_is_served_twice() -> None:
    route = Route(ApiKey.FETCH, 4, 18, _handler)
    with pytest.raises(ValueError, match="FETCH"):
        join((Family(route), Family(route)))


def test_the_joined_table_is_sorted_by_key() -> None:
    table = join((Family(Route(ApiKey.FETCH, 4, 18, _handler)), Family(Route(ApiKey.PRODUCE, 0, 13, _handler))))
    assert list(table) == [ApiKey.PRODUCE, ApiKey.FETCH]


@pytest.mark.pure
def test_clients_are_offered_nothing_that_belongs_to_controllers() -> None:
    assert not CONTROLLER_ONLY & documented_routes().keys()


@pytest.mark.pure
def test_advertised_and_served_versions_differ_for_produce_alone() -> None:
    differing = [key for key, route in documented_routes().items() if route.served_from >= 0]
    assert differing == [ApiKey.PRODUCE]
    produce = documented_routes()[ApiKey.PRODUCE]
    assert [produce.serves(version) for version in (0, 2, 3, 13, 14)] == [False, False, True, True, False]


ERRORS = (coordinator_errors, transaction_errors, partition_errors, metadata_errors, storage_errors)
WITHOUT_ROW = (coordinator_errors.Told, transaction_errors.ProducerIdNeeded)
"""What is told its code, and what no client is ever told of."""


def exceptions_of(module: ModuleType) -> list[type[BaseException]]:
    """Give the exceptions of a module that are raised: those no other one derives from."""
    declared = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, BaseException)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    parents = {base for value in declared for base in value.__bases__}
    return [value for value in declared if value not in parents]


@pytest.mark.parametrize(
    "failure",
    [one for module in ERRORS for one in exceptions_of(module) if not issubclass(one, WITHOUT_ROW)],
)
def test_every_exception_has_a_row(failure: type[BaseException]) -> None:
    assert any(ancestor in TABLE for ancestor in failure.__mro__)


def test_a_refusal_that_was_told_its_code_keeps_it() -> None:
    assert known_code(coordinator_errors.WriteFailed(ErrorCode.NOT_COORDINATOR)) is ErrorCode.NOT_COORDINATOR
    assert known_code(coordinator_errors.NotInTransaction(ErrorCode.INVALID_TXN_STATE)) is ErrorCode.INVALID_TXN_STATE


def test_a_class_without_a_row_of_its_own_has_its_ancestors() -> None:
    class Special(storage_errors.StorageFailure):
        pass

    assert known_code(Special("x")) is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_nobody_foresaw_is_an_unknown_server_error_with_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert code_of(RuntimeError("surprise"), context(ApiKey.FETCH, 12)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "surprise" in caplog.text
    caplog.clear()
    assert code_of(partition_errors.UnknownPartition(), context(ApiKey.FETCH, 12)).name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert not caplog.text
