"""Stock clients behind one interface, for processes that transform in transactions."""

from __future__ import annotations

from tests.history.clients.aio import AioClient
from tests.history.clients.confluent import ConfluentClient
from tests.history.clients.interface import Input, MustAbort, MustEnd, Options, TransformClient
from tests.history.clients.kafka_python import KafkaPythonClient
from tests.history.clients.raw import RawTransformClient

CLIENTS: dict[str, type[TransformClient]] = {
    "confluent": ConfluentClient,
    "aiokafka": AioClient,
    "kafka-python": KafkaPythonClient,
    "raw": RawTransformClient,
}

__all__ = ["CLIENTS", "Input", "MustAbort", "MustEnd", "Options", "TransformClient"]
