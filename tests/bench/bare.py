"""The bare loops the broker is compared with: they move the same bytes and do nothing a broker must do besides.

Each runs in a process of its own on the broker's core and answers with as many bytes as the broker would.
"""

import contextlib
import multiprocessing
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import crc32c

from tests.bench.load import cores

Serve = Callable[[socket.socket], None]

_FORK = multiprocessing.get_context("fork")


@contextlib.contextmanager
def serving(serve: Serve) -> Iterator[tuple[str, int]]:
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


def _accept_all(listener: socket.socket, serve: Serve) -> None:
    chosen = cores()
    if chosen:
        os.sched_setaffinity(0, {chosen[1]})
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(ConnectionError):
            serve(connection)


def receive_check_write(paths: Sequence[Path], batch_positions: Sequence[int], answer: bytes) -> Serve:
    """Receive frames, check the CRC of the batches at fixed positions, write each to its file, answer."""

    def serve(connection: socket.socket) -> None:
        files = [os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY) for path in paths]
        places = list(zip(files, batch_positions, strict=True))
        ends = dict.fromkeys(files, 0)
        size_bytes = bytearray(4)
        frame = memoryview(bytearray(1 << 20))
        try:
            while connection.recv_into(size_bytes, 4, socket.MSG_WAITALL) == 4:
                size = struct.unpack(">i", size_bytes)[0]
                connection.recv_into(frame[:size], size, socket.MSG_WAITALL)
                for file, position in places:
                    length, stored_crc = struct.unpack_from(">i5xI", frame, position + 8)
                    batch = frame[position : position + 12 + length]
                    if crc32c.crc32c(batch[21:]) != stored_crc:
                        raise ValueError("CRC")
                    ends[file] += os.pwrite(file, batch, ends[file])
                connection.sendall(answer)
        finally:
            for file, path in zip(files, paths, strict=True):
                os.close(file)
                path.unlink()

    return serve


def send_files(paths: Sequence[Path], request_size: int, header: bytes, piece_size: int) -> Serve:
    """Answer each request with a header and the next piece of each file by sendfile, over and over."""

    def serve(connection: socket.socket) -> None:
        files = [os.open(path, os.O_RDONLY) for path in paths]
        last = min(os.fstat(file).st_size for file in files) - piece_size
        request = bytearray(request_size)
        start = 0
        try:
            while connection.recv_into(request, request_size, socket.MSG_WAITALL) == request_size:
                connection.sendall(header)
                for file in files:
                    position = start
                    while position < start + piece_size:
                        position += os.sendfile(connection.fileno(), file, position, start + piece_size - position)
                start = start + piece_size if start + piece_size <= last else 0
        finally:
            for file in files:
                os.close(file)

    return serve
