"""Length framing: every request and response is an int32 size and that many bytes.

A size is judged as soon as its four bytes are there: a peer that announces too much is cut off before anything is
buffered for it.
"""

from __future__ import annotations

import struct
from typing import Final

SIZE_BYTES: Final = 4

_SIZE: Final = struct.Struct(">i")
unpack_size: Final = _SIZE.unpack_from
pack_size_into: Final = _SIZE.pack_into
