"""Transactions of version 2 over plain sockets, by a consumer that assigns itself all partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from tests.harness import batches
from tests.harness.raw import RawClient
from tests.history.clients.interface import Input, Options, TransformClient
from tests.history.implicit import NOT_YET_LEADING, ImplicitProducer, PatientClient
from tests.history.model import Partition

READ_COMMITTED = 1
WAIT_MS = 20
# How OffsetFetch says that a transaction with offsets is open, or that the coordinator loads.
NOT_STABLE = (88, 14, 15, 16)


class RawTransformClient(TransformClient):
    """The source has no transactions, so there are no aborted records to filter."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        host, port = options.bootstrap.split(":")
        self._producer = ImplicitProducer((host, int(port)), options.worker)
        self._consumer = PatientClient((host, int(port)))
        self._unsent: dict[Partition, list[tuple[str, Callable[[int], None]]]] = defaultdict(list)
        self._positions: dict[int, int] = {}
        self._turn = 0
        self.rewind()

    def poll(self, limit: int) -> list[Input]:
        self._turn = (self._turn + 1) % self.options.partitions
        number, position = self._turn, self._positions[self._turn]

        def fetch(client: RawClient) -> bytes | None:
            result = client.fetch(self.options.source, position, number, isolation=READ_COMMITTED, max_wait_ms=WAIT_MS)
            if result.error_code in NOT_YET_LEADING:
                return None
            assert result.error_code == 0, result
            return bytes(result.records or b"")

        found = [
            Input(number, batch.base_offset + index, (record.value or b"").decode())
            for batch in batches.parse(self._consumer.until(fetch))
            for index, record in enumerate(batch.records())
        ]
        wanted = [one for one in found if one.offset >= position][:limit]
        if wanted:
            self._positions[number] = wanted[-1].offset + 1
        return wanted

    def begin(self) -> None:
        self._unsent.clear()

    def send(self, partition: int, value: str, acknowledged: Callable[[int], None]) -> None:
        self._unsent[self.options.target, partition].append((value, acknowledged))

    def flush(self) -> None:
        for partition, sent in self._unsent.items():
            base_offset = self._producer.write(partition, [batches.Record(value.encode()) for value, _ in sent])
            for index, (_, acknowledged) in enumerate(sent):
                acknowledged(base_offset + index)
        self._unsent.clear()

    def send_offsets(self, offsets: Mapping[int, int]) -> None:
        positions = {(self.options.source, number): offset for number, offset in offsets.items()}
        self._producer.commit_offsets(self.options.group, positions)

    def commit(self) -> None:
        self.flush()
        self._producer.end(is_commit=True)

    def abort(self) -> None:
        self.flush()
        self._producer.end(is_commit=False)

    def rewind(self) -> None:
        for number in range(self.options.partitions):
            self._positions[number] = max(
                0, self._consumer.until(lambda client, number=number: self._committed(client, number))
            )
        self.when_moved([(self.options.source, number) for number in range(self.options.partitions)])

    def _committed(self, client: RawClient, number: int) -> int | None:
        if client.request("find_coordinator", 1, key=self.options.group, key_type=0).error_code != 0:
            return None
        answer = client.request(
            "offset_fetch",
            7,
            group_id=self.options.group,
            topics=[{"name": self.options.source, "partition_indexes": [number]}],
            require_stable=True,
        )
        if answer.error_code in NOT_STABLE:
            return None
        assert answer.error_code == 0, answer
        [row] = answer.topics[0].partitions
        return None if row.error_code in NOT_STABLE else int(row.committed_offset)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()
