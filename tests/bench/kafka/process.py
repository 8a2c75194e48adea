"""What a process and its children have used: processor seconds, resident memory and its peak."""

import re
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = 100


def tree(pid: int) -> Iterator[int]:
    """Yield a process and all that it has started and that live."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text(encoding="ascii").split()
        except OSError:  # the thread has ended meanwhile
            continue
        for child in found:
            yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    """Give what the process, its living children and those it has waited for have used."""
    return sum(_cpu_ticks(one) for one in tree(pid)) / _TICKS_PER_S


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(field) for field in fields[11:15])


def resident_megabytes(pid: int) -> float:
    """Give the resident memory of the process and its children."""
    return sum(_status_kilobytes(one, "VmRSS") for one in tree(pid)) / 1000


def peak_megabytes(pid: int) -> float:
    """Give the most resident memory that the process itself has had."""
    return _status_kilobytes(pid, "VmHWM") / 1000


def _status_kilobytes(pid: int, name: str) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1.024 if found else 0
