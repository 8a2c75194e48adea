"""What can be wrong with record bytes, apart from who sent them."""


class RecordsError(Exception):
    """Parent of every fault found in record bytes."""


class CorruptBatch(RecordsError):
    """Size, magic, CRC or compressed payload do not hold together: the bytes are damaged."""


class InvalidBatch(RecordsError):
    """The bytes are whole but the records in them are malformed."""


class BodyTooLarge(RecordsError):
    """A record of a compressed batch is larger than the caller's limit for one."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a compressed record of {size_bytes} bytes exceeds the configured limit of {limit_bytes}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class DecompressedTooLarge(RecordsError):
    """A compressed payload inflates beyond the caller's bound."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"decompressed records exceed {limit_bytes} bytes")
        self.limit_bytes = limit_bytes
