"""The limit on open files, and the part of it that connections must leave."""

import resource
import sys
import threading

import pytest

from broker.runtime.descriptors import (
    MAX_OPEN_SEGMENTS,
    OTHER_FILES,
    ask_for_this_thread,
    first_reserved,
    open_segments,
    raise_limit,
)
from storage.segment.open_files import FILES_PER_SEGMENT


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        assert raise_limit() >= soft
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("limit", "segments"), [(128, 8), (1024, 51), (65_536, 3276), (sys.maxsize, MAX_OPEN_SEGMENTS)]
)
def test_segments_get_a_quarter_of_the_descriptors_within_bounds(limit: int, segments: int) -> None:
    assert open_segments(limit) == segments


@pytest.mark.parametrize(("limit", "expected"), [(128, 56), (1024, 1024 - 255 - 256), (1 << 20, (1 << 20) - 20_736)])
def test_connections_leave_to_files_what_these_may_use(limit: int, expected: int) -> None:
    assert first_reserved(limit) == expected
    assert limit - expected >= open_segments(limit) * FILES_PER_SEGMENT + min(OTHER_FILES, limit // 4)


def test_only_the_thread_that_was_asked_for_is_told_yes() -> None:
    is_this = ask_for_this_thread()
    answers = [is_this()]
    other = threading.Thread(target=lambda: answers.append(is_this()))
    other.start()
    other.join()
    assert answers == [True, False]
