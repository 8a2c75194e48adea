"""`odradek storage`: ids, and log directories that are formatted before a broker starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli import main
from storage.checkpoints.meta_properties import read_meta_properties
from storage.env.posix import PosixFileSystem

ID = "5L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=7\nlog.dirs={tmp_path}/a,{tmp_path}/b\n", encoding="utf-8")
    return str(path)


def identity(directory: Path) -> tuple[str, int] | None:
    found = read_meta_properties(PosixFileSystem(), str(directory))
    return found and (found.cluster_id, found.node_id)


def test_a_random_id_is_one_and_each_time_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert [main(["storage", "random-uuid"]) for _ in range(2)] == [0, 0]
    first, second = capsys.readouterr().out.splitlines()
    assert len(first) == len(second) == 22 and first != second
    assert not first.startswith("-")


def test_fresh_directories_get_the_id_and_the_node(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["storage", "info", "-c", config]) == 1
    assert main(["storage", "format", "-t", ID, "-c", config, "--standalone"]) == 0
    assert [identity(tmp_path / name) for name in "ab"] == [(ID, 7)] * 2
    capsys.readouterr()
    assert main(["storage", "info", "-c", config]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{tmp_path}/{name}: cluster.id={ID} node.id=7" for name in "ab"]


def test_what_is_formatted_is_left_alone_and_refused_unless_that_is_wanted(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    format_again = ["storage", "format", "--cluster-id", "another", "--config", config]
    assert main(["storage", "format", "-t", ID, "-c", config]) == 0
    assert main(format_again) == 1
    assert f"{tmp_path}/a is already formatted" in capsys.readouterr().err
    assert main([*format_again, "--ignore-formatted"]) == 0
    assert identity(tmp_path / "a") == (ID, 7)


@pytest.mark.parametrize("arguments", [["format"], ["info"], ["format", "-c", "/no/such"], ["fly"]])
def test_what_is_missing_is_said_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["storage", *arguments]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_not_chosen_here_is_told(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--release-version", "3.9", "--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]")
    assert main(["storage", "format", "-t", ID, "-c", config, *options]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "odradek: warning: --release-version is ignored",
        "odradek: warning: --add-scram is ignored",
    ]
