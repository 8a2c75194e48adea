"""Compare Odradek with Apache Kafka: alternate sessions of both, and write what they gave.

``python -m tests.bench.kafka [--rounds N] [--only NAME ...] [--scale S] [--directory DIR] [--list]``

`--only` takes the names that `--list` gives, or beginnings of several. What is chosen replaces the same rows of earlier
runs in ``build/bench-kafka.json``; ``docs/benchmarks.md`` is written once every row has been measured.
"""

import argparse
import contextlib
import datetime
import fcntl
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from tests.bench.kafka import bare, machine, produce, render, small, workloads
from tests.bench.kafka import results as stored
from tests.bench.kafka.brokers import SIDES
from tests.bench.kafka.results import Results
from tests.bench.kafka.session import Session, reconnect, session
from tests.bench.kafka.workloads import KINDS, Kind, Workload
from tests.harness import java
from tests.harness.broker import ROOT

RESULTS = ROOT / "build" / "bench-kafka.json"
DOCUMENT = ROOT / "docs" / "benchmarks.md"
ROUNDS = 5
ATTEMPTS = 2


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, run, store, render; 1 if something could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    parser.add_argument("--scale", type=float, default=1.0, help="of all amounts; less than 1 only shows that it works")
    parser.add_argument("--no-warm-up", action="store_true", help="as --scale: only shows that it works")
    parser.add_argument("--directory", help="where the data goes (default: the temporary directory)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of all samples")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    parser.add_argument("--lock", type=Path, help="a file to lock around each session, where others measure too")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the document")
    parser.add_argument("--list", action="store_true", help="name the workloads")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(workloads.names()))
        return 0
    if options.render:
        return _write_document(stored.load(options.results), options.document)
    if reason := java.missing():
        parser.error(reason)
    _prepare_process()
    everything = stored.load(options.results)
    with tempfile.TemporaryDirectory(prefix="odradek-bench-kafka-", dir=options.directory) as name:
        found = _measure(options, Path(name), everything)
    print(render.table(found))
    _write_document(everything, options.document)
    return int(any(measured.failures for measured in found.keys.values()))


def _command(options: argparse.Namespace) -> str:
    """Give the command that measures the same rows again."""
    words = ["--rounds", str(options.rounds)] if options.rounds != ROUNDS else []
    words += ["--scale", str(options.scale)] if options.scale != 1.0 else []
    words += ["--no-warm-up"] if options.no_warm_up else []
    words += ["--only", *options.only] if options.only else []
    return f'make bench-kafka ARGS="{" ".join(words)}"' if words else "make bench-kafka"


def _prepare_process() -> None:
    """Allow both brokers and the loads as many files as the machine allows, and end in order when asked to."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGTERM, _end)


def _end(*_: object) -> NoReturn:
    sys.exit(1)


def _measure(options: argparse.Namespace, directory: Path, everything: Results) -> Results:
    """Run all sessions; what they have given is stored after each, so that a run that is ended is not lost."""
    found = Results(facts=machine.facts(directory))
    commit, command = machine.commit(), _command(options)
    began = time.monotonic()

    def keep() -> None:
        found.stamp(commit=commit, date=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}", command=command)
        everything.merge(found)
        stored.save(options.results, everything)

    for kind_name, kind in KINDS.items():
        chosen = workloads.chosen(kind, options.only)
        if not chosen:
            continue
        rounds = min(options.rounds, kind.most_rounds)
        for number in range(rounds):
            for side in SIDES:
                elapsed = time.monotonic() - began
                print(f"[{elapsed:6.0f} s] {kind_name}, round {number + 1} of {rounds}: {side}", flush=True)
                with _locked(options.lock):
                    found.extend(_session(kind, chosen, side, directory / f"{side}-{number}", options))
                keep()
    if workloads.wanted(bare.NAME, options.only):
        rounds = min(options.rounds, bare.MOST_ROUNDS)
        print(f"[{time.monotonic() - began:6.0f} s] bare loops, {rounds} rounds", flush=True)
        with _locked(options.lock):
            found.extend(bare.measure(directory, rounds))
        keep()
    return found


def _session(
    kind: Kind, chosen: dict[str, Workload], side: str, directory: Path, options: argparse.Namespace
) -> Results:
    """Run the chosen workloads against a fresh broker; what fails is tried once more and then said."""
    found = Results()
    try:
        with session(
            side,
            directory,
            found,
            tuned=kind.tuned,
            scale=options.scale,
            prefix=kind.prefix,
            properties=kind.properties,
        ) as opened:
            if kind.warms_up and not options.no_warm_up:
                produce.warm_up(opened)
                small.warm_up(opened)
            for name, workload in chosen.items():
                found.extend(_workload(opened, name, workload))
    except Exception as error:
        traceback.print_exc()
        found.fail(kind.prefix + next(iter(chosen)), f"{side}: {error}")
    return found


def _workload(opened: Session, name: str, workload: Workload) -> Results:
    for attempt in range(1, ATTEMPTS + 1):
        opened.results = Results()
        os.sync()  # what an earlier workload has left to the kernel is not this one's to pay
        began = time.perf_counter()
        try:
            workload(opened, name)
        except Exception as error:
            traceback.print_exc()
            text = f"{opened.side}: {type(error).__name__}: {error}"
            if opened.broker.process is None or opened.broker.process.poll() is not None:
                raise
            _clear(opened, name)
        else:
            print(render.progress(opened.results, opened.side, time.perf_counter() - began), flush=True)
            return opened.results
        print(f"  {opened.prefix}{name}: attempt {attempt} failed", flush=True)
    failed = Results()
    failed.fail(opened.prefix + name, text)
    return failed


def _clear(opened: Session, name: str) -> None:
    """Forget what a failed attempt has left: its topics and the tools' JVM."""
    opened.tools.close()
    reconnect(opened)
    for topic in opened.client.topic_names():
        if topic.startswith(name):
            opened.client.delete_topic(topic)


@contextlib.contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """Hold a lock, if there is one to hold."""
    if path is None:
        yield
        return
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _write_document(everything: Results, path: Path) -> int:
    """Write the page if every row has been measured."""
    missing = render.missing(everything)
    if missing:
        print(f"{path.name} was not written, since these rows have never been measured: {', '.join(missing)}")
        return 0
    path.write_text(render.document(everything), encoding="utf-8")
    print(f"{path} was written")
    return 0
