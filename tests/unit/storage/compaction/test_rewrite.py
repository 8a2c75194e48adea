"""One pass over a real log: which records, batches and files come out."""

from tests.sim.cleaning import clean, stored_records
from tests.sim.logs import read_all


def pairs(log):
    return [(record.offset, record.key, record.value) for record in stored_records(read_all(log))]


def test_the_newest_value_of_each_key_stays_at_its_offset(open_log, put, fs, clock):
    log = open_log()
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), roll=True)
    put(log, (b"b", b"2"), (b"c", b"1"), roll=True)
    put(log, (b"a", b"3"))
    result = clean(log, fs, clock)
    assert result.end_offset == 5
    assert pairs(log) == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1"), (5, b"a", b"3")]
    assert log.log_end_offset == 6
