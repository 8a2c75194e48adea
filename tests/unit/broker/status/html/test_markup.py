"""Elements, and that no text can become one."""

from __future__ import annotations

from broker.status.html.markup import Html, element, join

HOSTILE = "</td><script>alert('x')</script>\"&"


def test_text_is_escaped_wherever_it_stands() -> None:
    escaped = "&lt;/td&gt;&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot;&amp;"
    assert element("p", HOSTILE) == f"<p>{escaped}</p>"
    assert element("p", [HOSTILE, ("b", 1)]) == f"<p>{escaped}b1</p>"
    assert element("a", href=HOSTILE) == f'<a href="{escaped}"></a>'
    assert join([HOSTILE]) == escaped


def test_markup_is_taken_as_it_is() -> None:
    assert element("p", element("b", "x"), None, Html("<i></i>")) == "<p><b>x</b><i></i></p>"


def test_attributes_have_the_names_of_html_and_true_stands_alone() -> None:
    assert (
        element("input", class_="a", aria_label="b", hidden=True, checked=False, id=None, tabindex=-1)
        == '<input class="a" aria-label="b" hidden tabindex="-1">'
    )
