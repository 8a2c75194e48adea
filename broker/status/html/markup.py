"""Elements of HTML. Every text that goes in is escaped here; nothing else in this program writes a tag."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute = str | int | float | bool | None

VOID = frozenset({"img", "input", "link", "meta"})
NOTHING = Html("")


def element(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """Write an element. Attribute `class_` is class, `aria_label` aria-label; True stands alone, False and None not."""
    opening = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{opening}>")
    return Html(f"<{tag}{opening}>{''.join(map(_text, children))}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    """Put several after one another."""
    return Html("".join(map(_text, children)))


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str | int):
        return escape(str(child))
    return "".join(map(_text, child))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
