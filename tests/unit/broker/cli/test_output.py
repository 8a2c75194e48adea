"""What commands print."""

from __future__ import annotations

import io
import sys

import pytest

from broker.cli.output import print_json, write_all


def test_json_is_one_line(capsys):
    print_json({"topic": "ä", "partitions": [1]})
    assert capsys.readouterr().out == '{"topic":"ä","partitions":[1]}\n'


def test_what_an_unbuffered_output_takes_in_parts_is_written_whole(monkeypatch: pytest.MonkeyPatch):
    class Pipe(io.RawIOBase):
        """Takes four bytes a write, as a pipe may whose reader goes away or whose writer gets a signal."""

        taken = b""

        def write(self, data) -> int:
            self.taken += bytes(data[:4])
            return len(data[:4])

    class Output:
        buffer = Pipe()

    monkeypatch.setattr(sys, "stdout", Output)
    write_all(b"more than four")
    assert Output.buffer.taken == b"more than four"
