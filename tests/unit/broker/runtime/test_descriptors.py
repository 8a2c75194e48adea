"""The limit on open files, and the part of it that connections must leave."""

import resource

import pytest

from broker.runtime.descriptors import RESERVED, first_reserved, raise_limit


def test_the_limit_is_raised_as_far_as_it_may_be() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        assert raise_limit() >= soft
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= soft
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("limit", "expected"), [(128, 96), (1024, 1024 - RESERVED), (1 << 20, (1 << 20) - RESERVED)])
def test_connections_leave_a_part_to_files(limit: int, expected: int) -> None:
    assert first_reserved(limit) == expected
