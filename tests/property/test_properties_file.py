"""Whatever Java's Properties.store could write, the parser reads back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from config.errors import InvalidConfig
from config.sources import parse_properties

KEYS = st.text(
    st.characters(codec="ascii", exclude_categories=["Cc"]) | st.sampled_from("\t\n\r\f="), min_size=1, max_size=20
)
VALUES = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=40).map(str.strip)
ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


def escape(text, is_key):
    """Write as java.util.Properties does: all blanks of a key are escaped, only a leading one of a value."""
    out = []
    for position, character in enumerate(text):
        if character in ESCAPES:
            out.append(ESCAPES[character])
        elif (character == " " and (is_key or position == 0)) or character in "=:#!":
            out.append("\\" + character)
        elif not " " <= character <= "~":
            out.append(f"\\u{ord(character):04X}")
        else:
            out.append(character)
    return "".join(out)


@settings(max_examples=100)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_round_trip(properties):
    text = "#comment\n" + "".join(f"{escape(k, True)}={escape(v, False)}\n" for k, v in properties.items())
    assert {name: value.text for name, value in parse_properties(text, "f").items()} == properties


@settings(max_examples=100)
@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused_for_an_unfinished_escape(text):
    try:
        values = parse_properties(text, "f").values()
    except InvalidConfig as refusal:
        assert "\\u" in text and "(f:" in str(refusal)
    else:
        assert all(value.origin.startswith("f:") for value in values)
