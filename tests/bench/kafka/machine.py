"""Facts about the machine and the versions, without which numbers say nothing."""

import os
import platform
import re
import subprocess
import sysconfig
from pathlib import Path

import native
from tests.harness.broker import ROOT
from tests.harness.java import CLASSPATH_FILE


def facts(directory: Path) -> dict[str, str]:
    """Describe where this runs; the file system is that of the directory."""
    return {
        "processor": processor(),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB",
        "kernel": kernel(),
        "disk": _file_system(directory),
        "Python": python(),
        "hot modules": form(),
        "Java": _java(),
        "Apache Kafka": _kafka(),
    }


def commit() -> str:
    """Name the commit that is measured, with a mark if the tree differs from it."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude", "*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def processor() -> str:
    """Name the processors and their number."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return f"{os.cpu_count()} x {found[1] if found else platform.machine()}"


def kernel() -> str:
    """Name the system."""
    return f"{platform.system()} {platform.release()}"


def python() -> str:
    """Name the interpreter and how it was built: with a profile it runs a tenth faster or more."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    profile = "with" if "--enable-optimizations" in options else "without"
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{version}, {platform.python_compiler()}, built {profile} profile-guided optimization"


def form() -> str:
    """Tell how the hot modules run in a broker that is started from here."""
    native.prefer_compiled()
    return native.description()


def _file_system(directory: Path) -> str:
    """Name the device and file system that hold a directory: the longest mount point above it."""
    place = str(directory.resolve())
    best = ("", "", "")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        device, point, kind, *_ = line.split(" ")
        if (place == point or place.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[1]):
            best = (device, point, kind)
    return f"{best[2]} on {best[0]}"


def _java() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    return lines[0] if lines else "unknown"


def _kafka() -> str:
    found = re.search(r"/kafka-clients-([\d.]+)\.jar", CLASSPATH_FILE.read_text(encoding="utf-8"))
    return found[1] if found else "unknown"
