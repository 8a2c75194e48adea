"""Messages from and to bytes.

Each (message, version) is compiled on first use: its construct declaration is walked once and becomes source
made of `struct` calls (`compile_decode.py`, `compile_encode.py`). `interpreted.py` runs the declaration itself; tests
hold the two equal.
"""

from struct import error as StructError
from typing import Any, TypeVar

from protocol.compile_decode import compile_decoder
from protocol.compile_encode import compile_encoder
from protocol.errors import ProtocolError
from protocol.message import struct_for
from protocol.primitives import Blob

M = TypeVar("M")

COPY_BELOW_BYTES = 4096
"""Small frames are copied before they are decoded: bytes are faster to index and slice than a memoryview."""

_decoders: dict[tuple[type, int], Any] = {}
_encoders: dict[tuple[type, int], Any] = {}


def decode(message_type: type[M], version: int, data: bytes | bytearray | memoryview, pos: int = 0) -> M:
    """Decode the message that begins at `pos`; bytes after it are ignored.

    Shape: byte fields are copies, records are memoryviews of `data`. Raises: ProtocolError on malformed bytes.
    """
    decoder = _decoders.get((message_type, version)) or _add_decoder(message_type, version)
    view = memoryview(data)
    end = len(view)
    try:
        message: M = decoder(bytes(view) if end < COPY_BELOW_BYTES else view, pos, end, view)
    except (IndexError, StructError, UnicodeDecodeError) as error:
        raise ProtocolError(f"malformed {message_type.__name__} v{version}: {error}") from error
    return message


def encode(message: Any, version: int, prefix: bytes = b"") -> list[bytes | bytearray | Blob]:
    """Encode a message as chunks; `prefix` opens the first one. A Blob given as records is a chunk of its own."""
    message_type = type(message)
    encoder = _encoders.get((message_type, version)) or _add_encoder(message_type, version)
    chunks: list[bytes | bytearray | Blob] = []
    out = encoder(message, bytearray(prefix), chunks)
    if out or not chunks:
        chunks.append(out)
    return chunks


def encode_bytes(message: Any, version: int) -> bytes:
    """Encode a message that holds no Blob."""
    message_type = type(message)
    encoder = _encoders.get((message_type, version)) or _add_encoder(message_type, version)
    chunks: list[Any] = []
    out = encoder(message, bytearray(), chunks)
    assert not chunks, "a Blob has no bytes to give"
    return bytes(out)


def _add_decoder(message_type: type, version: int) -> Any:
    decoder = _decoders[message_type, version] = compile_decoder(_struct(message_type, version))
    return decoder


def _add_encoder(message_type: type, version: int) -> Any:
    encoder = _encoders[message_type, version] = compile_encoder(_struct(message_type, version))
    return encoder


def _struct(message_type: Any, version: int) -> Any:
    if not message_type.MIN_VERSION <= version <= message_type.MAX_VERSION:
        raise ValueError(f"{message_type.__name__} has no version {version}")
    return struct_for(message_type, version)
