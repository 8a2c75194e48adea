"""Compile the hot modules: `python -m native.build`, from the root of a checkout.

mypyc translates them to C as one group, so that calls between them are plain calls; the C compiler runs for several
files at a time. What it left in build/native is used again where nothing has changed. Exit status: 0 when compiled
modules lie ready; 1 when there are none, with the reason in one line: the broker then runs from its sources; 2, and
nothing is said, when mypyc is all that is missing.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import source_hash
from pathlib import Path
from typing import Any

import native
from native.modules import MODULES

ROOT = Path(native.ROOT)
BUILT = Path(native.BUILT)
WORK = ROOT / "build" / "native" / native.SUFFIX.strip(".")
"""Object files of one interpreter are of no use to another, though both were given the same C."""
PACKAGES = ("broker", "config", "protocol", "storage")
TYPES_STAMP = "types"
"""Beside the stamp of what was compiled: the hash of all sources, whose types were relied on."""
FLAGS = ("-O1", "-g0", "-w", "-fvisibility=hidden")
"""-O2 takes twice the time to compile and saves two instructions of a hundred."""
LINK_FLAGS = ("-s",) if sys.platform == "linux" else ()


class CannotCompile(Exception):
    """Something that compiling needs is missing or fails."""

    status = 1


class NoMypyc(CannotCompile):
    """All that is missing can be installed."""

    status = 2


def is_current() -> bool:
    """Tell whether what lies ready was made from today's sources."""
    try:
        return Path(native.STAMP).read_text() == native.stamp() and (BUILT / TYPES_STAMP).read_text() == hash_of_all()
    except (OSError, UnicodeDecodeError):
        return False


def hash_of_all() -> str:
    """Hash all sources: compiled modules rely on the types in those they import."""
    paths = sorted(path for package in (*PACKAGES, "native") for path in (ROOT / package).rglob("*.py"))
    hashes = [str(path.relative_to(ROOT)).encode() + source_hash(path.read_bytes()) for path in paths]
    return source_hash(b"".join(hashes)).hex()


def build() -> None:
    """Compile what has changed and put it in place, whole. Raises: CannotCompile."""
    compiler = _compiler()
    # Taken first: who edits meanwhile compiles again.
    stamps = {Path(native.STAMP).name: native.stamp(), TYPES_STAMP: hash_of_all()}
    extensions = _translate()
    sources = {source: extension for extension in extensions for source in extension.sources}
    newest_header = max(path.stat().st_mtime_ns for path in WORK.rglob("*.h"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        largest_first = sorted(sources, key=os.path.getsize, reverse=True)
        list(pool.map(lambda source: _compile(compiler, source, sources[source], newest_header), largest_first))
        fresh = BUILT.with_name(f"built-{os.getpid()}")
        try:
            list(pool.map(lambda extension: _link(extension, fresh), extensions))
            for name, text in stamps.items():
                (fresh / name).write_text(text)
            shutil.rmtree(BUILT, ignore_errors=True)
            fresh.rename(BUILT)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _compiler() -> list[str]:
    chosen = os.environ.get("CC")
    command = shlex.split(chosen or sysconfig.get_config_var("CC") or "cc")
    if not chosen and shutil.which(command[0]) is None:
        command = ["cc"]
    if shutil.which(command[0]) is None:
        raise CannotCompile(f"CC is {chosen}, and there is no such command" if chosen else "there is no C compiler")
    headers = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(headers, "Python.h")):
        raise CannotCompile(f"there is no Python.h in {headers}")
    flags = shlex.split(f"{sysconfig.get_config_var('CFLAGS') or ''} {sysconfig.get_config_var('CCSHARED') or '-fPIC'}")
    return [*command, *flags, *FLAGS, f"-I{headers}"]


def _translate() -> list[Any]:
    """Let mypyc write the C files; the extensions say what belongs together."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        raise NoMypyc from None
    print("odradek: compiling the hot modules (PURE=1 does without)", flush=True)
    paths = [os.path.relpath(native.source_of(module), ROOT) for module in MODULES]
    options = ["--ignore-missing-imports", f"--cache-dir={WORK / 'mypy'}"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            extensions: list[Any] = mypycify(
                [*options, *paths], group_name="odradek", multi_file=True, target_dir=str(WORK)
            )
    except SystemExit:
        raise CannotCompile(f"mypyc refuses the sources:\n{said.getvalue()}") from None
    return extensions


def _object_of(source: str) -> Path:
    return Path(source).with_suffix(".o")


def _compile(compiler: list[str], source: str, extension: Any, newest_header: int) -> None:
    made = _object_of(source)
    if made.exists() and made.stat().st_mtime_ns > max(os.stat(source).st_mtime_ns, newest_header):
        return
    half = made.with_suffix(".half")  # a compiler that is killed leaves no file that looks like a whole one
    _run([*compiler, *(f"-I{directory}" for directory in extension.include_dirs), "-c", source, "-o", str(half)])
    half.replace(made)


def _link(extension: Any, directory: Path) -> None:
    target = directory / (extension.name.replace(".", os.sep) + native.SUFFIX)
    target.parent.mkdir(parents=True, exist_ok=True)
    command = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
    _run([*command, *LINK_FLAGS, *(str(_object_of(source)) for source in extension.sources), "-o", str(target)])


def _run(command: Iterable[str]) -> None:
    done = subprocess.run([*command], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise CannotCompile(f"{shlex.join(done.args)}\n{done.stderr}")


def main() -> int:
    """Build unless all is current; the exit status."""
    if is_current():
        return 0
    os.chdir(ROOT)
    started = time.monotonic()
    try:
        build()
    except CannotCompile as reason:
        shutil.rmtree(BUILT, ignore_errors=True)
        if not isinstance(reason, NoMypyc):
            print(f"odradek: not compiled, since {reason}", file=sys.stderr)
        return reason.status
    except KeyboardInterrupt:
        return 130
    print(f"odradek: compiled {len(MODULES)} modules in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # to free what mypy has built up takes longer than to link
