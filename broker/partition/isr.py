"""Which replicas count, and how far the high watermark may go. Pure.

Source: KIP-497; Partition.maybeIncrementLeaderHW.
"""

from __future__ import annotations


def high_watermark(isr: tuple[int, ...], node_id: int, current: int, log_end_offset: int) -> int:
    """Give the offset below which every in-sync replica has all records.

    With this broker as the only member that is its own log end. Another member has acknowledged nothing here, so the
    high watermark stays where it is.
    """
    return log_end_offset if isr == (node_id,) else current
