"""How much memory the process may use, as the files of its control groups say."""

from __future__ import annotations

import pytest

from broker.runtime.memory import memory_limit_bytes

GIB = 1 << 30
MACHINE = 64 * GIB


def limit(files: dict[str, str]) -> int:
    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    return memory_limit_bytes(read, MACHINE)


@pytest.mark.parametrize(
    ("expected", "files"),
    [
        (MACHINE, {}),
        (MACHINE, {"/proc/self/cgroup": "0::/\n"}),
        (2 * GIB, {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": f"{2 * GIB}\n"}),
        (MACHINE, {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}),
        (
            GIB,
            {
                "/proc/self/cgroup": "0::/outer/inner\n",
                "/sys/fs/cgroup/outer/inner/memory.max": "max\n",
                "/sys/fs/cgroup/outer/memory.max": f"{GIB}\n",
            },
        ),
        (
            3 * GIB,
            {
                "/proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/box\n0::/\n",
                "/sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{3 * GIB}\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
        ),
        (MACHINE, {"/proc/self/cgroup": "no group\n\n0::/\n", "/sys/fs/cgroup/memory.max": "?\n"}),
    ],
)
def test_the_smallest_limit_of_the_groups_around_us_counts(expected: int, files: dict[str, str]) -> None:
    assert limit(files) == expected


def test_this_machine_has_one() -> None:
    assert memory_limit_bytes() > 1 << 20
