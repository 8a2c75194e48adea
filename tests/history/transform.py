"""A consume-transform-produce process: ``transform.py CLIENT JSON``, with the options of `Options`.

Reads numbers from a topic and writes ``NUMBER>ATTEMPT`` to the same partition of another, the offsets in the same
transaction. Prints ``committed`` after each transaction and ``error TEXT`` when it ends because its client told it to;
notes everything in its journal; SIGUSR1 makes it print where it stands. Gates: begun, produced, offsets, committing,
committed.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
from pathlib import Path

from kafka.errors import KafkaError

from tests.history.clients import CLIENTS, Input, MustAbort, MustEnd, Options, TransformClient
from tests.history.gate import Gate, say
from tests.history.journal import Journal
from tests.history.model import Partition

LARGEST_TRANSACTION_RECORDS = 6
# How often it changes its mind, as an application does that finds its input wrong.
ABORTED_FREELY = 0.1


class Transformer:
    """One life of the loop."""

    def __init__(self, client: TransformClient, options: Options, gate: Gate) -> None:
        self._client = client
        self._options = options
        self._gate = gate
        self._journal = Journal(Path(options.journal), options.life)
        self._journal.producer(options.life)
        self._rng = random.Random(options.life)
        self._count = 0
        # The session that each partition is read in; a rebalance or a rewind ends it.
        self._sessions: dict[Partition, str] = {}
        client.when_moved = self._forget

    def _forget(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            self._sessions.pop(partition, None)

    def run(self) -> None:
        """Transform until told to leave."""
        while not self._gate.leaving.is_set():
            records = self._client.poll(self._rng.randint(1, LARGEST_TRANSACTION_RECORDS))
            for one in records:
                partition = (self._options.source, one.partition)
                if partition not in self._sessions:
                    self._sessions[partition] = self._journal.session(partition, is_committed=True)
                self._journal.read(self._sessions[partition], one.offset, one.value)
            if records:
                self._transform(records)

    def _transform(self, records: list[Input]) -> None:
        self._count += 1
        name = f"{self._options.life}/{self._count}"
        self._journal.began(name)
        try:
            self._client.begin()
            self._gate.at("begun")
            self._send(name, records)
            self._gate.at("produced")
            self._client.send_offsets({one.partition: one.offset + 1 for one in records})
            self._gate.at("offsets")
            if self._rng.random() < ABORTED_FREELY:
                raise MustAbort("freely")
            self._journal.committing(name)
            self._gate.at("committing")
            self._client.commit()
            self._journal.committed(name)
            say("committed")
            self._gate.at("committed")
        except MustAbort:
            self._client.abort()
            self._journal.aborted(name)
            self._client.rewind()
            self._sessions.clear()

    def _send(self, transaction: str, records: list[Input]) -> None:
        for index, one in enumerate(records):
            value = f"{one.value}>{transaction}.{index}"
            self._journal.writing(self._options.life, (self._options.target, one.partition), value, transaction)
            self._client.send(one.partition, value, lambda offset, value=value: self._journal.written(value, offset))
        if self._rng.random() < 0.5:
            self._client.flush()


def main() -> None:
    """Run one life."""
    options = Options(**json.loads(sys.argv[2]))
    faulthandler.register(signal.SIGUSR1)
    gate = Gate()
    try:
        client = CLIENTS[sys.argv[1]](options)
        Transformer(client, options, gate).run()
        client.close()
    except (MustEnd, KafkaError) as failure:  # kafka-python raises its own when it is made while no broker is there
        say("error", repr(failure))
        os._exit(3)  # a client that hangs may not keep the process


if __name__ == "__main__":
    main()
