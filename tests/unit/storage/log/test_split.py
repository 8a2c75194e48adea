"""A segment with offsets beyond what its indexes express becomes two; nothing that could be read is lost."""

import os
import struct

import pytest

from protocol.records.batch import patch_offset_and_epoch
from protocol.records.control import build_marker
from tests.sim.logs import NOW, append, batch, file_names, read_all
from tests.sim.logs import batches_of as headers_of

FAR = 1 << 31
SMALL = {"segment_bytes": 1 << 20, "index_interval_bytes": 100}


def at(offset: int, **fields) -> bytes:
    data = batch(timestamp=NOW, **fields)
    patch_offset_and_epoch(data, 0, offset, 0)
    return bytes(data)


def abort_at(offset: int, producer_id: int) -> bytes:
    data = bytearray(
        build_marker(is_abort=True, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW)
    )
    patch_offset_and_epoch(data, 0, offset, 0)
    return bytes(data)


def write(log, base: int, batches: list[bytes], kind: str = ".log") -> None:
    with open(os.path.join(log.path, f"{base:020d}{kind}"), "wb") as file:
        file.write(b"".join(batches))


def overflowing(open_log, offsets, *, later: int | None = None):
    """A log as an old broker may have left it: no index, offsets too far above the base of their segment."""
    log = open_log(**SMALL)
    log.fail()
    for name in file_names(log):
        os.unlink(os.path.join(log.path, name))
    write(log, 0, [at(offset) for offset in offsets])
    if later is not None:
        write(log, later, [at(later)])
        offsets = [*offsets, later]
    return log, list(offsets)


def offsets_in(log) -> list[int]:
    log.advance_high_watermark(log.log_end_offset)
    return [header.base_offset for header in headers_of(read_all(log))]


def logs_of(log) -> list[int]:
    return [int(name[:20]) for name in file_names(log) if name.endswith(".log")]


CASES = {
    "in the middle": [*range(5), FAR + 3, FAR + 4],
    "at the first offset that is too far": [0, FAR - 1, FAR],
    "with the first batch": [FAR + 1, FAR + 2],
    "twice": [0, FAR + 3, FAR + 9, 3 * FAR, 3 * FAR + 1],
}


@pytest.mark.parametrize("later", [None, 7 * FAR])
@pytest.mark.parametrize("how", ["unclean", "clean", "validated", "below the recovery point"])
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_lost_and_no_offset_lies_too_far_above_its_segment(open_log, case, how, later):
    _, offsets = overflowing(open_log, CASES[case], later=later)
    clean = how in ("clean", "validated")
    again = open_log(
        clean=clean,
        validate_on_open=how == "validated",
        recovery_point=offsets[-1] + 1 if how == "below the recovery point" else 0,
        **SMALL,
    )
    assert again.log_end_offset == offsets[-1] + 1
    assert offsets_in(again) == offsets
    bases = logs_of(again)
    for offset in offsets:
        assert 0 <= offset - max(base for base in bases if base <= offset) < FAR
    assert not [name for name in file_names(again) if name.endswith((".swap", ".cleaned", ".deleted"))]
    assert append(again).base_offset == offsets[-1] + 1
    again.close()
    once_more = open_log(clean=True, **SMALL)
    assert logs_of(once_more) == bases
    assert offsets_in(once_more) == [*offsets, offsets[-1] + 1]


def test_aborted_transactions_stay_with_their_part(open_log):
    log, _ = overflowing(open_log, [])
    transactional = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    batches = [at(0, producer_id=1, **transactional), abort_at(1, 1), at(2, producer_id=2, **transactional)]
    batches += [abort_at(FAR + 5, 2), at(FAR + 6, producer_id=3, **transactional), abort_at(FAR + 7, 3)]
    write(log, 0, batches)
    entries = [(0, 1, 0, 1, 2), (0, 2, 2, FAR + 5, FAR + 6), (0, 3, FAR + 6, FAR + 7, FAR + 8)]
    write(log, 0, [struct.pack(">hqqqq", *entry) for entry in entries], ".txnindex")
    again = open_log(clean=True, validate_on_open=False, **SMALL)
    assert logs_of(again) == [0, FAR + 5]
    assert again.transactions.aborted(0, again.log_end_offset) == [(1, 0), (2, 2), (3, FAR + 6)]
    assert [os.path.getsize(os.path.join(log.path, f"{base:020d}.txnindex")) for base in (0, FAR + 5)] == [34, 68]


@pytest.mark.parametrize("recovery_point", [0, 9 * FAR])
def test_parts_of_a_segment_with_an_unusable_index_are_recovered(open_log, recovery_point):
    log, _ = overflowing(open_log, [])
    transactional = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    batches = [at(0, producer_id=1, **transactional), abort_at(1, 1)]
    batches += [at(FAR + 6, producer_id=3, **transactional), abort_at(FAR + 7, 3)]
    write(log, 0, batches)
    write(log, 0, [bytes(68)], ".txnindex")
    write(log, 8 * FAR, [at(8 * FAR)])
    again = open_log(recovery_point=recovery_point, **SMALL)
    assert logs_of(again) == [0, FAR + 6, 8 * FAR]
    again.advance_high_watermark(again.log_end_offset)
    assert again.transactions.aborted(0, again.log_end_offset) == [(1, 0), (3, FAR + 6)]


def test_damage_behind_the_place_of_the_split_still_ends_the_log_after_an_unclean_stop(open_log):
    log, _ = overflowing(open_log, [])
    damaged = bytearray(at(FAR + 6))
    damaged[-1] ^= 1
    write(log, 0, [at(0), at(FAR + 5), bytes(damaged), at(FAR + 7)])
    write(log, 4 * FAR, [at(4 * FAR)])
    again = open_log(**SMALL)
    assert offsets_in(again) == [0, FAR + 5]
    assert logs_of(again) == [0, FAR + 5]


def test_damage_that_hides_the_overflow_after_a_clean_stop_is_cut(open_log):
    log, _ = overflowing(open_log, [])
    torn = bytearray(at(1))
    torn[8:12] = bytes(4)
    start = len(at(0)) * 2
    write(log, 0, [at(0), bytes(torn), at(FAR + 7)])
    write(log, 0, [struct.pack(">ii", 7, start)], ".index")
    write(log, 0, [struct.pack(">qi", NOW, 0)], ".timeindex")
    again = open_log(clean=True, validate_on_open=False, **SMALL)
    assert offsets_in(again) == [0]
