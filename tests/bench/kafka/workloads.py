"""Which workloads there are, in which kind of session each runs, and in which order.

A session is one broker on a fresh directory; what a later workload of it reads, an earlier one has written.
"""

import dataclasses
from collections.abc import Callable, Mapping

from tests.bench.kafka import (
    bare,
    compaction,
    consume,
    idle,
    memory,
    partitions,
    produce,
    rate,
    small,
    stops,
    tail,
)
from tests.bench.kafka.session import Session

Workload = Callable[[Session, str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """Sessions of one kind: their workloads by name, and how their brokers differ from the defaults."""

    workloads: Mapping[str, Workload]
    prefix: str = ""
    tuned: bool = False
    warms_up: bool = False
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    most_rounds: int = 1_000


def _main() -> dict[str, Workload]:
    return {
        **dict.fromkeys(produce.SHAPES, produce.run),
        **dict.fromkeys(consume.READS, consume.warm),
        "memory": memory.run,
        "groups-10": consume.groups,
        "consume-1k-cold": consume.cold,
        "rate-java": rate.run,
        "rate-raw": small.fixed_rate,
        **dict.fromkeys(small.IN_FLIGHT, small.one_in_flight),
        "tail-50": tail.run,
        "idle-5k": idle.run,
        "recovery": stops.recovery,
        "clean": stops.clean,
    }


_TUNED = ("produce-1k", "produce-100b", "consume-1k", "rate-raw", "one-in-flight-1", "one-in-flight-64")

KINDS = {
    "main": Kind(_main(), warms_up=True),
    "compaction": Kind({"compaction": compaction.run}, properties=compaction.PROPERTIES, most_rounds=3),
    "partitions": Kind({"partitions": partitions.run}, most_rounds=3),
    "tuned": Kind({name: _main()[name] for name in _TUNED}, prefix="tuned-", tuned=True, warms_up=True, most_rounds=3),
}


def names() -> list[str]:
    """Name all workloads, as they are chosen and shown."""
    return [*(kind.prefix + name for kind in KINDS.values() for name in kind.workloads), bare.NAME]


def chosen(kind: Kind, only: list[str]) -> dict[str, Workload]:
    """Give the workloads of a kind that were asked for."""
    return {name: workload for name, workload in kind.workloads.items() if wanted(kind.prefix + name, only)}


def wanted(name: str, only: list[str]) -> bool:
    """Tell whether a workload was asked for: by its name, by the beginning of several names, or as one of all."""
    whole = names()
    return not only or any(name == one or (one not in whole and name.startswith(one)) for one in only)
