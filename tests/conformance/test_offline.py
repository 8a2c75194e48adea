"""The files of stopped brokers, ours and Apache Kafka's: dump-log prints of them what DumpLogSegments prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli import main
from tests.harness.legacy_sets import BASE_OFFSET, GOLDEN
from tests.harness.tool_host import ToolHost

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
LOGS = (".log", ".checkpoint")
INDEXES = (".index", ".timeindex")
OTHERS = (".snapshot", ".txnindex")
LEAST_FILES = 40


def cases(directory: Path) -> list[list[str]]:
    """Give the options with the files that all who have them have in common."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(directory.glob("disk-*/*[0-9]/*")):
        topic = path.parent.name.rpartition("-")[0]
        if path.suffix in LOGS:
            decoder = DECODERS.get(topic, "--print-data-log")
            kinds = [(decoder,), (decoder, "--skip-record-metadata"), (), ("--deep-iteration",), ("--max-bytes", "999")]
        elif path.suffix in INDEXES:
            kinds = [(), ("--verify-index-only",), ("--index-sanity-check",)]
        else:
            kinds = [()] if path.suffix in OTHERS else []
        for kind in kinds:
            found.setdefault((*kind, "" if kind else path.suffix), []).append(str(path))
    return [[*(word for word in kind if word and word[0] != "."), "--files", ",".join(paths)]
            for kind, paths in found.items()]  # fmt: skip


def assert_same(tool_host: ToolHost, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Have both print, and compare line by line."""
    theirs = tool_host.attempt("kafka-dump-log", *arguments)
    status = main(["dump-log", *arguments])
    printed = capsys.readouterr()
    assert status == theirs.code, (arguments, printed.err, theirs.err)
    assert printed.out.splitlines() == theirs.out.splitlines(), arguments
    assert complaints(printed.err) == complaints(theirs.err), arguments


def complaints(text: str) -> list[str]:
    """Give what was said on standard error.

    The reference counts every segment but the first as not following on its beginning, -1; that is left out.
    """
    lines = text.splitlines()
    told = [line for line in lines if not line.startswith("  -1 is followed by ")]
    followed = [*told[1:], ""]
    return sorted(
        line
        for line, after in zip(told, followed, strict=False)
        if not line.startswith("Non-consecutive offsets") or after.startswith("  ")
    )


@pytest.mark.jvm
@pytest.mark.parametrize("whose", ["our_files", "their_files"])
def test_dump_log_prints_what_the_reference_prints(
    whose: str, tool_host: ToolHost, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    directory: Path = request.getfixturevalue(whose)
    compared = 0
    for arguments in cases(directory):
        assert_same(tool_host, capsys, arguments)
        compared += arguments[-1].count(",") + 1
    assert compared > LEAST_FILES


@pytest.mark.jvm
def test_dump_log_prints_legacy_sets_as_the_reference_does(
    tmp_path: Path, tool_host: ToolHost, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for number, content in enumerate(GOLDEN.values()):
        path = tmp_path / str(number) / f"{BASE_OFFSET:020}.log"
        path.parent.mkdir()
        path.write_bytes(content)
        paths.append(str(path))
    for options in ([], ["--deep-iteration"], ["--print-data-log"]):
        assert_same(tool_host, capsys, [*options, "--files", ",".join(paths)])


@pytest.mark.jvm
def test_dump_log_prints_a_torn_end_as_the_reference_does(
    our_files: Path, tmp_path: Path, tool_host: ToolHost, capsys: pytest.CaptureFixture[str]
) -> None:
    content = next((our_files / "disk-0").glob("codecs-0/*0.log")).read_bytes()
    path = tmp_path / f"{0:020}.log"
    for length in (len(content) - 1, len(content) - 40, 100, 16, 0):
        path.write_bytes(content[:length])
        assert_same(tool_host, capsys, ["--print-data-log", "--files", str(path)])
    damaged = bytearray(content)
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert_same(tool_host, capsys, ["--files", str(path)])
