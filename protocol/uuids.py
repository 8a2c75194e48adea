"""Uuids as the protocol carries them: 16 raw bytes, shown as 22 characters of URL-safe base64.

All zero means "no id". Kafka keeps the ids below 100 for its own use (one is the metadata topic, some are log
directories), so a random id is never one of them; and it never begins with '-', because tools would take the text for
an option. Source: org.apache.kafka.common.Uuid.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable

UUID_SIZE = 16
ZERO_UUID = bytes(UUID_SIZE)
ONE_UUID = bytes(15) + b"\x01"
RESERVED_BELOW = 100


def format_uuid(uuid: bytes) -> str:
    """Return the text form that tools print and `meta.properties` holds."""
    assert len(uuid) == UUID_SIZE
    return urlsafe_b64encode(uuid)[:22].decode("ascii")


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes behind a text form, with or without its padding. Raises ValueError when it is not one."""
    text = text.removesuffix("==")
    if len(text) != 22 or not text.isascii() or not all(c.isalnum() or c in "-_" for c in text):
        raise ValueError(f"not a uuid: {text[:40]!r} (22 characters of URL-safe base64 expected)")
    return urlsafe_b64decode(text + "==")


def random_uuid(rng_bytes: Callable[[int], bytes]) -> bytes:
    """Return a fresh version 4 uuid made from `rng_bytes(16)`, drawn again while it is one Kafka would refuse."""
    while True:
        raw = bytearray(rng_bytes(UUID_SIZE))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != 62:  # 62 is '-' in this alphabet
            return bytes(raw)
