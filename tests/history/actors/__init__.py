"""The clients of the randomized workload, by name."""

from __future__ import annotations

from tests.history.actors.interface import Actor, ActorOptions
from tests.history.actors.librdkafka import GroupConsumer, OnceProducer, TransactionalProducer
from tests.history.actors.python_clients import AioConsumer, AioProducer, PythonConsumer, PythonProducer
from tests.history.actors.raw import ImplicitTransactions, PlainProducer

ACTORS: dict[str, type[Actor]] = {
    "plain": PlainProducer,
    "implicit": ImplicitTransactions,
    "once": OnceProducer,
    "transactions": TransactionalProducer,
    "consumer": GroupConsumer,
    "kafka-python-once": PythonProducer,
    "kafka-python-consumer": PythonConsumer,
    "aiokafka-transactions": AioProducer,
    "aiokafka-consumer": AioConsumer,
}

__all__ = ["ACTORS", "Actor", "ActorOptions"]
