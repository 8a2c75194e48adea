"""Points in time and lengths of time as they are written in options."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from broker.cli.errors import CommandError

_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


def timestamp_ms(text: str) -> int:
    """Read a date with a time, in UTC unless a zone is given, as milliseconds since 1970. Raises: CommandError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or "T" not in text:
        raise CommandError(f"Invalid date {text[:80]!r}: expected YYYY-MM-DDTHH:mm:SS.sss, with a zone or in UTC")
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return (when - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def duration_ms(text: str) -> int:
    """Read an ISO 8601 duration of days and less. Raises: CommandError."""
    found = _DURATION.fullmatch(text)
    parts = {name: value for name, value in found.groupdict().items() if value and name != "sign"} if found else {}
    if found is None or not parts or text[-1] in "Tt":
        raise CommandError(f"Invalid duration {text[:80]!r}: expected PnDTnHnMnS, such as P7D or PT1H30M")
    length = timedelta(**{name: float(value) for name, value in parts.items()})
    return (-length if found["sign"] == "-" else length) // timedelta(milliseconds=1)
