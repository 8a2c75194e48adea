"""Length framing, without I/O: where a frame ends, and what size is never accepted.

Every request and response is an int32 size and that many bytes. A size is judged as soon as its four bytes are there:
a peer that announces too much is cut off before anything is buffered for it.
"""

from __future__ import annotations

import struct

from protocol.errors import ProtocolError

SIZE_BYTES = 4

_SIZE = struct.Struct(">i")
_unpack_size = _SIZE.unpack_from
pack_size_into = _SIZE.pack_into


def frame_size(buffer: memoryview, position: int, limit_bytes: int) -> int:
    """Read the size of the frame that begins at `position`.

    Raises: ProtocolError when it is negative or above `limit_bytes` (socket.request.max.bytes).
    """
    size: int = _unpack_size(buffer, position)[0]
    if 0 <= size <= limit_bytes:
        return size
    raise ProtocolError(f"frame of {size} bytes, legal are 0 to {limit_bytes}")
