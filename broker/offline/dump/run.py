"""Show files, each by what its name says it is."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.offline.dump.decoders import Decoder
from broker.offline.dump.indexes import IndexDump
from broker.offline.dump.printer import Printer
from broker.offline.dump.segments import SegmentDump, gap_lines
from broker.offline.dump.small_files import NAMES, show_producers, show_small_file
from storage.env.fs import FileSystem
from storage.segment.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MARKERS,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)

CHECKPOINT_SUFFIX = ".checkpoint"
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_BASE_OFFSET = re.compile(r"(\d{1,19})\.|(0\d{19})\.")


class DumpOptions(NamedTuple):
    """What is shown of files."""

    decoder: Decoder | None = None
    """None leaves keys and values out."""
    is_deep: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_bytes: int | None = None


class Dump:
    """Shows files one after the other; what does not fit together is told by `finish`."""

    def __init__(
        self,
        fs: FileSystem,
        printer: Printer,
        options: DumpOptions,
        advance: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._fs = fs
        self._printer = printer
        is_deep = options.is_deep or options.decoder is not None
        self._segments = SegmentDump(
            fs, printer, advance, is_deep=is_deep, decoder=options.decoder, max_bytes=options.max_bytes
        )
        self._indexes = IndexDump(
            fs, printer, sanity_only=options.index_sanity_check, verify_only=options.verify_index_only
        )

    def show(self, path: str) -> bool:
        """Show one file; False when it could not be read to its end. What is wrong is told on standard error."""
        try:
            return self._show(path)
        except BrokenPipeError:
            raise  # of whoever reads what is printed
        except OSError as error:
            self._printer.complain(f"cannot read {path}: {error.strerror}")
            return False

    def finish(self) -> None:
        """Tell what did not fit together."""
        for line in (*self._indexes.complaints(), *gap_lines(self._segments.gaps)):
            self._printer.complain(line)

    def _show(self, path: str) -> bool:
        name = os.path.basename(path)
        kept = next((name.removesuffix(marker) for marker in MARKERS if name.endswith(marker)), name)
        suffix = os.path.splitext(kept)[1]
        found = _BASE_OFFSET.match(kept)
        base_offset = int(found[1] or found[2]) if found else None
        if suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and base_offset is None:
            self._printer.complain(f"{path}: the name of an index begins with the base offset of its segment")
            return False
        if suffix == LOG_SUFFIX:
            self._printer.begin(path, "log", {} if base_offset is None else {"start": base_offset})
            return self._segments.show(path, name)
        if suffix == CHECKPOINT_SUFFIX:
            self._begin_snapshot(path, name)
            return self._segments.show(path, name)
        if suffix == INDEX_SUFFIX:
            self._printer.begin(path, "index", {})
            return self._indexes.show_offsets(path, base_offset or 0)
        if suffix == TIME_INDEX_SUFFIX:
            self._printer.begin(path, "timeindex", {})
            return self._indexes.show_times(path, base_offset or 0)
        if suffix == SNAPSHOT_SUFFIX:
            self._printer.begin(path, "producers", {})
            return show_producers(self._fs, self._printer, path)
        if suffix == TXN_INDEX_SUFFIX:
            self._printer.begin(path, "txnindex", {})
            return self._indexes.show_aborted(path)
        if name in NAMES:
            self._printer.begin(path, name, {})
            return show_small_file(self._fs, self._printer, path)
        self._printer.begin(path, "unknown", {})
        self._printer.complain(f"Ignoring unknown file {path}")
        return True

    def _begin_snapshot(self, path: str, name: str) -> None:
        found = _SNAPSHOT.fullmatch(name)
        if name == BOOTSTRAP_SNAPSHOT:
            self._printer.begin(path, "bootstrap snapshot", {})
        else:
            self._printer.begin(path, "snapshot", {"end": int(found[1]), "epoch": int(found[2])} if found else {})


def dump(
    fs: FileSystem,
    printer: Printer,
    paths: Sequence[str],
    options: DumpOptions,
    advance: Callable[[int], None] = lambda count: None,
) -> bool:
    """Show files; False when one of them could not be read to its end."""
    work = Dump(fs, printer, options, advance)
    is_readable = [work.show(path) for path in paths]
    work.finish()
    return all(is_readable)
