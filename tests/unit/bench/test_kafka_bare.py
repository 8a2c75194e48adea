"""The goals against bare loops are picked out of what the parts of the other benchmarks give."""

from tests.bench.kafka import bare
from tests.bench.kafka.brokers import BARE, OURS
from tests.bench.kafka.rows import LOOPS
from tests.bench.load import Result


def test_each_ratio_gives_our_samples_and_those_of_its_loop() -> None:
    found = [
        Result("small requests", "req/s", [1.0]),
        Result("one", "MB/s", [2.0, 3.0]),
        Result("  bare", "MB/s", [4.0, 6.0]),
        Result("  ratio", "%", [50.0, 50.0]),
        Result("two", "MB/s", [5.0]),
        Result("  bare", "MB/s", [10.0]),
        Result("  ratio", "%", [50.0]),
    ]
    keys = bare.pairs("produce", found).keys
    assert {key: measured.samples for key, measured in keys.items()} == {
        "bare-produce-1": {OURS: [2.0, 3.0], BARE: [4.0, 6.0]},
        "bare-produce-2": {OURS: [5.0], BARE: [10.0]},
    }


def test_the_rows_are_beside_loops() -> None:
    assert {row.beside for row in LOOPS.rows} == {BARE}
