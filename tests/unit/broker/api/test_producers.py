from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker.api.producers import ProducersApi
from broker.coordinator.producer_ids import ProducerIds
from broker.metadata.controller.producer_ids import BLOCK_SIZE
from broker.metadata.controller.run import Controller
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.sim.transactions import TransactionRig
from tests.unit.broker.conftest import Ask, Node


def plain(**fields: Any) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, **fields)


def producers_of(controller: Controller) -> ProducersApi:
    return ProducersApi(ProducerIds(controller.allocate_producer_ids), TransactionRig().coordinator)


@pytest.mark.parametrize("version", range(6))
async def test_every_producer_has_an_id_of_its_own_at_epoch_zero(ask: Ask, node: Node, version: int) -> None:
    controller = await node.start()
    api = producers_of(controller)
    answers = [await ask(api, plain(), version) for _ in range(3)]
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]
    await controller.close()


async def test_ids_are_unique_across_blocks_restarts_and_concurrent_askers(ask: Ask, node: Node) -> None:
    seen: list[int] = []
    for _ in range(2):
        controller = await node.start()
        api = producers_of(controller)
        answers = await asyncio.gather(*(ask(api, plain(), 5) for _ in range(BLOCK_SIZE + 50)))
        seen.extend(answer.producer_id for answer in answers)
        await controller.close()
    assert len(seen) == len(set(seen)) == 2 * (BLOCK_SIZE + 50)
    assert max(seen) < 4 * BLOCK_SIZE


async def test_an_asker_that_goes_away_does_not_take_the_block_along(ask: Ask, node: Node) -> None:
    controller = await node.start()
    api = producers_of(controller)
    released = asyncio.Event()

    async def flush(call: Callable[[], Any]) -> Any:
        await released.wait()
        return call()

    node.flush = flush
    first, second, third = (asyncio.create_task(ask(api, plain(), 5)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    await asyncio.sleep(0)
    released.set()
    assert (await third).error_code == 0
    await controller.close()


async def test_senseless_requests_are_refused(ask: Ask, node: Node) -> None:
    controller = await node.start()
    api = producers_of(controller)
    empty = InitProducerIdRequest(transactional_id="")
    for request in (empty, plain(producer_id=5), plain(producer_epoch=0)):
        answer = await ask(api, request, 5)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (42, -1, -1)
    await controller.close()


async def test_a_stopped_controller_has_no_ids(ask: Ask, node: Node) -> None:
    controller = await node.start()
    await controller.close()
    assert (await ask(producers_of(controller), plain(), 5)).error_code == 15
