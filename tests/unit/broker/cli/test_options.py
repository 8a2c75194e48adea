"""What the options of all tools have in common: numbers."""

import pytest

from broker.cli import main
from broker.cli.options import whole_number

ENDLESS = "9" * 5000


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.5", "0x1", " 1", "²"])
def test_what_is_not_digits_is_no_number(text):
    assert whole_number(text) is None


def test_a_number_of_any_length_is_read():
    assert whole_number("0017") == 17
    assert whole_number(ENDLESS) > 1 << 64


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "--delay-ms", ENDLESS),
        ("produce", "--producer-property", f"batch.size={ENDLESS}"),
        ("consume", "--partition", "0", "--offset", ENDLESS),
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_a_tool_takes_a_number_that_is_too_long_for_python(arguments, capsys):
    assert main([*arguments, "--topic", "t", "--bootstrap-server", "127.0.0.1:1"]) == 1
    assert "cannot connect" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("produce", "--delay", "5"), ("consume", "--max-mess=1")], ids=" ".join)
def test_a_name_that_is_cut_short_is_no_option(arguments, capsys):
    """As in Kafka's tools; who writes `--delay 5` may think of seconds."""
    assert main([*arguments, "--topic", "t", "--bootstrap-server", "127.0.0.1:1"]) == 1
    command, *rest = arguments
    expected = f"odradek: unrecognized arguments: {' '.join(rest)} (see `odradek {command} --help`)\n"
    assert capsys.readouterr().err == expected
