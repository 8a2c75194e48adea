"""The command line: exit status, warnings, output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types

import pytest

import native
from broker.cli import main
from broker.cli.commands import COMMANDS, Command
from broker.cli.errors import CommandError
from broker.version import VERSION


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("KAFKA_"):
            monkeypatch.delenv(name)


@pytest.fixture
def served(monkeypatch):
    """Stand in for the broker: keep the resolver it was started with and end with status 7."""
    resolvers = []

    def run(resolver):
        resolvers.append(resolver)
        return 7

    server = types.ModuleType("broker.serve")
    server.run = run
    monkeypatch.setitem(sys.modules, "broker.serve", server)
    return resolvers


def test_serve_hands_the_resolver_over_and_returns_the_brokers_status(served, tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\n")
    assert main(["serve", str(path), "--override", "broker.rack=r", "--override", "node.id=3"]) == 7
    values = served[0]
    assert (values.get("num.partitions"), values.get("broker.rack"), values.get("node.id")) == (2, "r", 3)


def test_override_may_stand_before_the_file(served, tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\n")
    assert main(["serve", "--override", "num.partitions=5", str(path)]) == 7
    assert served[0].get("num.partitions") == 5


def test_bad_value_is_one_line_and_status_1(served, capsys):
    assert main(["serve", "--override", "log.retention.ms=abc"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert "abc" in captured.err and "log.retention.ms" in captured.err and "64-bit integer" in captured.err
    assert served == []


def test_unknown_keys_warn_and_serve(served, capsys):
    assert main(["serve", "--override", "a.b=1", "--override", "c.d=2"]) == 7
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 2 and "a.b" in warnings[0] and "c.d" in warnings[1]


def test_config_prints_values_with_their_source(served, capsys):
    assert main(["config", "--override", "log.retention.hours=1", "--override", "ssl.key.password=hunter2"]) == 0
    out = capsys.readouterr().out
    assert "log.retention.hours=1  # --override\n" in out
    assert "ssl.key.password=[hidden]" in out and "hunter2" not in out
    assert served == []


def test_environment_counts(served, monkeypatch):
    monkeypatch.setenv("KAFKA_LOG_DIRS", "/from/environment")
    assert main(["serve"]) == 7
    assert served[0].get("log.dirs") == ("/from/environment",)


def test_missing_file(capsys):
    assert main(["serve", "/no/such/file"]) == 1
    assert capsys.readouterr().err == (
        "odradek: Cannot read the properties file /no/such/file: No such file or directory\n"
    )


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"odradek {VERSION} ({native.description()})\n"


@pytest.mark.parametrize("arguments", [["fly"], ["serve", "a", "b"], ["serve", "--override"], ["config", "--fly"]])
def test_a_command_line_that_is_not_understood_is_one_line_and_status_2(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("odradek: ") and captured.err.count("\n") == 1


def test_no_command_shows_all_of_them_with_what_they_do(capsys):
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert all(re.search(rf"^  {name} +{re.escape(row.help)}", shown, re.M) for name, row in COMMANDS.items())
    assert main(["help"]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_its_options(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: odradek {name} ")


@pytest.fixture
def stand_in(monkeypatch):
    """Let `odradek stand-in` run a function."""

    def install(run):
        module = types.ModuleType("broker.cli.stand_in")
        module.run = run
        monkeypatch.setitem(sys.modules, "broker.cli.stand_in", module)
        monkeypatch.setitem(COMMANDS, "stand-in", Command("stand-in", ""))

    return install


def test_an_interrupted_command_ends_with_the_status_of_its_signal(stand_in, capsys):
    def run(arguments):
        raise KeyboardInterrupt

    stand_in(run)
    assert main(["stand-in"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_refusal_is_one_line_with_the_status_it_carries(stand_in, capsys):
    def run(arguments):
        raise CommandError("no such thing", status=3)

    stand_in(run)
    assert main(["stand-in"]) == 3
    assert capsys.readouterr() == ("", "odradek: no such thing\n")


def test_a_reader_that_leaves_ends_a_command_without_a_word():
    """`odradek config | head -1`, with a pipe whose other end is closed before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "broker", "config"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_tools_load_nothing_of_the_broker():
    check = (
        "import sys; from broker.cli import main; assert main(['help']) == 0; "
        "print(sorted(name for name in sys.modules if name.startswith(('broker', 'storage', 'protocol', 'config'))))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(
        [
            *("broker", "broker.cli", "broker.cli.commands", "broker.cli.errors", "broker.cli.imports"),
            *("broker.runtime", "broker.runtime.garbage", "broker.version"),
        ]
    )


@pytest.mark.parametrize(
    ("redirection", "words", "said"),
    [
        ("> /dev/full", "No space left on device", "help"),
        ("<&- >&-", "cannot connect", "produce --topic t --bootstrap-server 127.0.0.1:1"),
    ],
)
def test_a_standard_file_that_is_full_or_closed_is_one_line(redirection, words, said):
    command = f'"{sys.executable}" -m broker {said} {redirection}'
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("odradek: ") and words in ended.stderr and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_tells_the_version_as_kafkas_scripts_do(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{VERSION}\n"
