"""Tables and JSON."""

from __future__ import annotations

from broker.cli.output import print_json, table


def test_columns_are_as_wide_as_their_widest_cell():
    assert table(("GROUP", "LAG"), [("a", 12345), ("longer", None)]) == ["GROUP   LAG", "a       12345", "longer  -"]


def test_json_is_one_line(capsys):
    print_json({"topic": "ä", "partitions": [1]})
    assert capsys.readouterr().out == '{"topic":"ä","partitions":[1]}\n'
