"""The bare loops the broker is compared with: they move the same bytes and do nothing a broker must do besides.

Each runs in a process of its own on the broker's core and answers with as many bytes as the broker would.
"""

import contextlib
import multiprocessing
import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import crc32c

from tests.bench.load import cores

_FORK = multiprocessing.get_context("fork")


@contextlib.contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Run ``serve`` on every accepted connection, one after another; yields the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    process = _FORK.Process(target=_accept_all, args=(listener, serve), daemon=True)
    process.start()
    try:
        yield listener.getsockname()
    finally:
        process.terminate()
        process.join()
        listener.close()


def _accept_all(listener: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    chosen = cores()
    if chosen:
        os.sched_setaffinity(0, {chosen[1]})
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(ConnectionError):
            serve(connection)


def receive_check_write(path: Path, batch_position: int, answer: bytes) -> Callable[[socket.socket], None]:
    """Receive frames, check the CRC of the batch at a fixed position, write the batch, answer."""

    def serve(connection: socket.socket) -> None:
        file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        size_bytes = bytearray(4)
        frame = memoryview(bytearray(1 << 20))
        position = 0
        try:
            while connection.recv_into(size_bytes, 4, socket.MSG_WAITALL) == 4:
                size = struct.unpack(">i", size_bytes)[0]
                connection.recv_into(frame[:size], size, socket.MSG_WAITALL)
                length, stored_crc = struct.unpack_from(">i5xI", frame, batch_position + 8)
                batch = frame[batch_position : batch_position + 12 + length]
                if crc32c.crc32c(batch[21:]) != stored_crc:
                    raise ValueError("CRC")
                position += os.pwrite(file, batch, position)
                connection.sendall(answer)
        finally:
            os.close(file)

    return serve


def send_file(path: Path, request_size: int, header: bytes, piece_size: int) -> Callable[[socket.socket], None]:
    """Answer each request with a header and the next piece of a file by sendfile, over and over."""

    def serve(connection: socket.socket) -> None:
        file = os.open(path, os.O_RDONLY)
        file_size = os.fstat(file).st_size
        request = bytearray(request_size)
        position = 0
        try:
            while connection.recv_into(request, request_size, socket.MSG_WAITALL) == request_size:
                connection.sendall(header)
                end = position + piece_size
                while position < end:
                    position += os.sendfile(connection.fileno(), file, position, end - position)
                if position + piece_size > file_size:
                    position = 0
        finally:
            os.close(file)

    return serve
