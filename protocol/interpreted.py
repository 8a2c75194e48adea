"""The plain construct path: slow, obvious, and the yardstick for the compiled twins in `codec.py`."""

from functools import cache
from io import BytesIO
from typing import Any

from construct import ConstructError

from protocol.errors import ProtocolError
from protocol.message import struct_for

_struct_for = cache(struct_for)


def parse_interpreted(message_type: type, version: int, data: bytes) -> Any:
    """Decode with the construct declaration. Raises ProtocolError on malformed bytes; trailing ones are ignored."""
    try:
        return _struct_for(message_type, version).parse_stream(BytesIO(data))
    except ConstructError as error:
        raise ProtocolError(str(error)) from error


def build_interpreted(message: Any, version: int) -> bytes:
    """Encode with the construct declaration."""
    message_type: Any = type(message)
    return bytes(_struct_for(message_type, version).build(message))
