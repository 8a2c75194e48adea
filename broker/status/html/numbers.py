"""Numbers as people read them. Units are those of the log: powers of 1024, seconds."""

from __future__ import annotations

from datetime import UTC, datetime

NO_VALUE = "\u2013"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SPACE = "\u00a0"
_AGES_SECONDS = 1000 * 365 * 86_400
_STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def count(value: int | None) -> str:
    """Write a whole number."""
    return NO_VALUE if value is None else f"{value:,}"


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Write so many of something; the noun has the ending unless it is one."""
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def size(value: float | None) -> str:
    """Write bytes with three digits."""
    if value is None:
        return NO_VALUE
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:  # 1,000 KiB would have four digits
            break
        value /= 1024
    return f"{_three_digits(value, is_whole=unit == 'B')}{_SPACE}{unit}"


def rate(value: float | None, unit: str = "") -> str:
    """Write so many things, or bytes, a second."""
    if value is None:
        return NO_VALUE
    if unit == "B":
        return f"{size(value)}/s"
    return f"{_three_digits(value, is_whole=value == 0)}/s"


def _three_digits(value: float, *, is_whole: bool) -> str:
    digits = 0 if is_whole or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{digits}f}"


def duration(seconds: float | None) -> str:
    """Write a time with its two largest units."""
    if seconds is None:
        return NO_VALUE
    left = int(seconds)
    parts: list[str] = []
    for length, unit in _STEPS:
        if left >= length or parts or length == 1:
            parts.append(f"{left // length}{_SPACE}{unit}")
            left %= length
    return " ".join(parts[:2])


def wait(until_ms: int | None, now_ms: int) -> str:
    """Write how long it is until a time, which may be any that a client has thought of."""
    if until_ms is None:
        return NO_VALUE
    seconds = max(until_ms - now_ms, 0) / 1000
    return "ages" if seconds > _AGES_SECONDS else duration(seconds)


def moment(time_ms: int) -> str:
    """Write a wall clock time."""
    return _utc(time_ms).strftime("%Y-%m-%d %H:%M:%S")


def machine_moment(time_ms: int) -> str:
    """Write a wall clock time for programs."""
    return _utc(time_ms).strftime("%Y-%m-%dT%H:%M:%SZ")


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def percent(share: float) -> str:
    """Write a share of one; all is only what is all."""
    return f"{min(int(share * 100), 100)}{_SPACE}%"
