"""What commands print."""

from __future__ import annotations

from broker.cli.output import print_json


def test_json_is_one_line(capsys):
    print_json({"topic": "ä", "partitions": [1]})
    assert capsys.readouterr().out == '{"topic":"ä","partitions":[1]}\n'
