"""Five thousand connections that do nothing: what each costs in memory, and what one that works feels of them."""

import contextlib
import socket

from tests.bench.kafka import process, small
from tests.bench.kafka.session import Session
from tests.bench.kafka.wires import produce_answer_size, produce_frame
from tests.bench.load import connect
from tests.bench.members import frame

CONNECTIONS = 5_000
AT_ONCE = 25
"""Fewer than the backlog of a listener, beyond which connections wait for the kernel to try again."""
WORK_S = 1.5


def run(session: Session, name: str) -> None:
    """Note kilobytes a connection, and requests a second over one more connection meanwhile."""
    session.client.create_topic(name)
    request = produce_frame(name)
    answer_size = produce_answer_size(session.client, request)
    hello = frame("api_versions", 0)
    count = session.scaled(CONNECTIONS)
    before = process.resident_megabytes(session.broker.pid)
    with contextlib.ExitStack() as stack:
        for first in range(0, count, AT_ONCE):
            few = range(first, min(first + AT_ONCE, count))
            idle = [stack.enter_context(socket.create_connection(session.address, timeout=60)) for _ in few]
            for connection in idle:
                connection.sendall(hello)
            for connection in idle:
                _receive_answer(connection)
        session.note(f"{name}-memory", (process.resident_megabytes(session.broker.pid) - before) * 1e3 / count)
        working = [stack.enter_context(connect(session.address))]
        small.alternate(working, request, answer_size, small.WARM_UP_S)
        used = session.cpu_seconds()
        done, seconds = small.alternate(working, request, answer_size, max(WORK_S * session.scale, 0.2))
        session.note(f"{name}-requests", done / seconds)
        session.note_cpu(f"{name}-requests", session.cpu_seconds() - used, done)
    session.client.delete_topic(name)


def _receive_answer(connection: socket.socket) -> None:
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
    if not size or len(connection.recv(size, socket.MSG_WAITALL)) != size:
        raise ConnectionError("closed while it was idle")
