"""What the tests ask a page for: JavaScript that runs in it and gives plain values."""

from __future__ import annotations

from typing import Any

from tests.harness.chromium import Chromium

TABLE = """
Object.fromEntries([...document.querySelectorAll('#%s-table tbody tr')].map(row =>
    [row.cells[0].querySelector('a')?.textContent ?? row.cells[0].textContent,
     Object.fromEntries([...row.cells].map((cell, number) =>
        [cell.closest('table').tHead.rows[0].cells[number].textContent, cell.textContent]))]))
"""

FOCUSED = """(() => {
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    return {number: [...document.querySelectorAll('*')].indexOf(one), what: one.outerHTML.slice(0, 120),
            ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
            seen: box.width > 0 && box.height > 0 && box.top < innerHeight && box.bottom > 0
                  && box.left < innerWidth && box.right > 0};
})()"""

REACHABLE = """[...document.querySelectorAll('a[href], button, input:not([type=hidden]), [tabindex="0"]')]
    .filter(one => one.checkVisibility()).map(one => [...document.querySelectorAll('*')].indexOf(one))"""

# Every piece of text that is seen, with its colour and that of the first background behind it that is not transparent.
TEXTS = """(() => {
    const opaque = colour => !/^rgba\\(.*, 0\\)$/.test(colour) && colour !== 'transparent';
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.data.trim(), one = walker.currentNode.parentElement;
        const box = one.getBoundingClientRect();
        if (!text || !one.checkVisibility() || box.width < 2 || one.closest('.unseen, title, progress')) continue;
        let behind = one;
        while (behind && !opaque(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
        found.push([text.slice(0, 40), getComputedStyle(one).color, getComputedStyle(behind).backgroundColor]);
    }
    return found;
})()"""

# What stands out over the right edge, other than inside of something that scrolls by itself.
TOO_WIDE = """[...document.querySelectorAll('body *')].filter(one =>
    one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll') && one.checkVisibility())
    .map(one => one.outerHTML.slice(0, 120))"""


def table(browser: Chromium, name: str) -> dict[str, dict[str, str]]:
    """Return a table by the heads of its rows and of its columns."""
    return dict(browser.run(TABLE % name))


def text(browser: Chromium, selector: str = "body") -> str:
    """Return the text of an element as it is shown."""
    return str(browser.run(f"document.querySelector({selector!r})?.innerText ?? ''")).replace("\u00a0", " ")


def contrast(front: str, back: str) -> float:
    """Compute the contrast of two colours as a browser writes them. Source: WCAG 2.2."""
    darker, lighter = sorted((_luminance(front), _luminance(back)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts: list[Any] = colour[colour.index("(") + 1 : colour.index(")")].split(",")
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (float(part) / 255 for part in parts[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
