"""The stylesheet: its colours can be told apart by everybody, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import broker.status

STYLE = (Path(broker.status.__file__).parent / "assets" / "style.css").read_text()
TEXT_CONTRAST, GRAPHICS_CONTRAST = 4.5, 3.0
"""WCAG 2.2 AA: 1.4.3 and 1.4.11."""

TEXT = [
    ("text", "page"),
    ("text", "card"),
    ("text", "track"),
    ("muted", "page"),
    ("muted", "card"),
    ("link", "page"),
    ("link", "card"),
    *((level, f"{level}-soft") for level in ("ok", "warn", "bad")),
    ("bad", "page"),
]
GRAPHICS = [
    ("fill", "card"),
    ("fill", "track"),
    ("warn", "track"),
    ("focus", "page"),
    ("focus", "card"),
    ("muted", "card"),
    *((level, "card") for level in ("ok", "warn", "bad")),
]


def colours() -> dict[str, dict[str, str]]:
    """Read the named colours: those of light, and those of dark over them."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    parts = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), TEXT)
def test_text_can_be_read(scheme: str, front: str, back: str) -> None:
    named = colours()[scheme]
    assert contrast(named[front], named[back]) >= TEXT_CONTRAST


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), GRAPHICS)
def test_lines_bars_and_the_focus_can_be_seen(scheme: str, front: str, back: str) -> None:
    named = colours()[scheme]
    assert contrast(named[front], named[back]) >= GRAPHICS_CONTRAST


def test_every_colour_has_a_name() -> None:
    without_names = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", without_names)


def test_nothing_is_loaded_from_anywhere() -> None:
    assert "url(" not in STYLE
    assert "@import" not in STYLE
