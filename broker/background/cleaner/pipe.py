"""What the broker and its cleaner processes say to each other: pickled messages, each behind its length.

Both ends are ours: the broker starts the process and nobody else has their socket, so nothing is unpickled that was not
pickled by this program.

    broker → child   Clean(task, rate), SetRate(rate)
    child → broker   Progressed(...) now and then, then Cleaned(result) or Failed(...) once for each Clean
"""

import pickle
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

LENGTH_BYTES = 4
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""More than the state of a million producers; a longer message means that the pipe carries something else."""


class Clean(NamedTuple):
    """Clean one log; `bytes_per_second` is this process's share of what all may read and write."""

    task: Any
    bytes_per_second: float


class SetRate(NamedTuple):
    """Go on at another pace."""

    bytes_per_second: float


class Progressed(NamedTuple):
    """How far the task is."""

    progress: Any


class Cleaned(NamedTuple):
    """The output is on disk, to be installed by the broker."""

    result: Any


class Fault(Enum):
    """Whose failure it was, which decides what the broker does next."""

    DATA = "data"
    """The log cannot be cleaned as it is; trying again would end the same way."""
    DISK = "disk"
    """The directory can no longer be trusted."""
    OTHER = "other"
    """No memory, no space, a file that went away: it may be better next time."""


class Failed(NamedTuple):
    """The task was given up and has left nothing behind."""

    fault: Fault
    reason: str
    details: str  # where an error of ours came from; empty when the data is to blame


Message = Clean | SetRate | Progressed | Cleaned | Failed


class BrokenPipeline(Exception):
    """The other end says something that is no message."""


def pack(message: Message) -> bytes:
    """Give the bytes of one message."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    assert len(body) <= MAX_MESSAGE_BYTES, len(body)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class Unpacker:
    """Turns received bytes, cut anywhere, into messages."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()  # what has come of the next message

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete now. Raises: BrokenPipeline."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(buffer[:LENGTH_BYTES], "big")
            if end > MAX_MESSAGE_BYTES:
                raise BrokenPipeline(f"a message announces {end} bytes")
            if len(buffer) < end:
                return
            body = bytes(buffer[LENGTH_BYTES:end])
            del buffer[:end]
            try:
                message = pickle.loads(body)
            except Exception as error:
                raise BrokenPipeline(f"a message cannot be read: {error}") from error
            yield message
