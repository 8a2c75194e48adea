import os
import random

from config.views import LogConfig
from storage.dirs.manager import LogManager
from storage.log.partition_log import PartitionLog
from storage.segment.open_files import FILES_PER_SEGMENT, OpenFiles
from storage.types import TopicPartition
from tests.sim.logs import append, batch, batches_of, read_all

SIZE = len(batch())


class Fake:
    """A segment as far as OpenFiles sees it."""

    def __init__(self, files: OpenFiles, name: str) -> None:
        self.files = files
        self.name = name
        self.size = 0
        self.is_waiting = False
        self.is_open = False

    def open(self) -> None:
        self.is_open = True
        self.files.note_open(self)

    def release_files(self) -> None:
        self.is_open = False
        self.files.note_closed(self)


def fakes(files: OpenFiles, names: str) -> dict[str, Fake]:
    made = {name: Fake(files, name) for name in names}
    for one in made.values():
        one.open()
    return made


def open_ones(made: dict[str, Fake]) -> str:
    return "".join(name for name, one in made.items() if one.is_open)


def test_the_one_opened_first_is_closed_when_there_are_too_many():
    made = fakes(OpenFiles(3), "abcde")
    assert open_ones(made) == "cde"


def test_one_that_has_grown_since_stays_and_one_that_waits_for_a_write_too():
    files = OpenFiles(3)
    made = fakes(files, "abc")
    made["a"].size += 1
    made["b"].is_waiting = True
    made.update(fakes(files, "d"))
    assert open_ones(made) == "abd"
    made.update(fakes(files, "e"))
    assert open_ones(made) == "abe"
    assert len(files) == 3


def test_where_all_are_in_use_the_bound_holds_all_the_same_but_for_what_waits():
    files = OpenFiles(3)
    made = fakes(files, "abc")
    for one in made.values():
        one.size += 1
    made.update(fakes(files, "d"))
    assert open_ones(made) == "bcd"
    for one in made.values():
        one.is_waiting = True
    made.update(fakes(files, "ef"))
    assert open_ones(made) == "bcdf"


def test_the_one_being_opened_is_never_closed():
    files = OpenFiles(1)
    made = fakes(files, "a")
    made["a"].open()
    made.update(fakes(files, "b"))
    assert open_ones(made) == "b"


def test_other_threads_than_the_owners_close_nothing():
    is_owner = False
    files = OpenFiles(2, lambda: is_owner)
    made = fakes(files, "abcd")
    assert open_ones(made) == "abcd"
    is_owner = True
    made.update(fakes(files, "e"))
    assert open_ones(made) == "de"


def test_logs_work_alike_with_hardly_any_files(fs, clock, rng, tmp_path):
    chance = random.Random(5)
    config = LogConfig(segment_bytes=7 * SIZE, index_interval_bytes=SIZE)
    files, logs, counts = OpenFiles(3), [], [0] * 12
    for number in range(12):
        tp = TopicPartition("t", number)
        logs.append(
            PartitionLog.open(fs, clock, rng, str(tmp_path / f"t-{number}"), tp, config, clean=True, open_files=files)
        )
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(1_500):
        number = chance.randrange(12)
        log = logs[number]
        what = chance.random()
        if what < 0.5:
            append(log)
            counts[number] += 1
        elif what < 0.8 and counts[number]:
            start = chance.randrange(counts[number])
            assert batches_of(read_all(log, start, max_bytes=3 * SIZE))[0].base_offset == start
        elif what < 0.9:
            log.flush()
        assert len(files) <= 3
        assert len(os.listdir("/proc/self/fd")) <= before + 3 * FILES_PER_SEGMENT
    for log, count in zip(logs, counts, strict=True):
        assert [header.base_offset for header in batches_of(read_all(log))] == list(range(count))
        log.close()
    assert len(files) == 0


def test_an_index_that_alone_is_looked_at_counts_as_well(fs, clock, rng, tmp_path):
    config = LogConfig(index_interval_bytes=SIZE)
    files = OpenFiles(3)

    def opened(number):
        tp = TopicPartition("t", number)
        return PartitionLog.open(
            fs, clock, rng, str(tmp_path / f"t-{number}"), tp, config, clean=True, open_files=files
        )

    for number in range(12):
        log = opened(number)
        for _ in range(12):
            append(log)
        log.close()
    logs = [opened(number) for number in range(12)]
    before = len(os.listdir("/proc/self/fd"))
    for log in logs:
        assert log.append_times([5]).run().keys() == {5}
        assert 0 < len(files) <= 3
    assert len(os.listdir("/proc/self/fd")) <= before + 3 * FILES_PER_SEGMENT
    for log in logs:
        log.close()
    assert len(files) == 0


def test_once_other_threads_close_the_logs_opening_one_takes_no_files_from_another(fs, clock, rng, tmp_path):
    manager = LogManager(fs, clock, rng, [str(tmp_path)], open_files=OpenFiles(1))
    manager.open_dirs(1)
    manager.load_all(lambda tp: LogConfig())
    logs = [manager.create(TopicPartition("t", number), bytes([number + 1] * 16), LogConfig()) for number in range(3)]
    for log in logs:
        append(log)
    assert len(manager.open_files) == 1
    closing = manager.begin_closing()
    for log in logs:
        append(log)
    assert len(manager.open_files) == 3
    for one in closing:
        one.work()
    manager.finish_closing(closing)
    assert (len(manager.open_files), (tmp_path / ".kafka_cleanshutdown").exists()) == (0, True)
