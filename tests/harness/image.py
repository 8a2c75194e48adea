"""The container image, built and run without an engine: `buildah --isolation chroot`, on a base made by debootstrap.

Everything lies in build/image and is used again: the base until `make clean`, the image while nothing that goes into
it has changed. A running container shares the network of this machine, so its ports are ours.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.harness.broker import POLL_INTERVAL_S, READY_LINE, ROOT
from tests.harness.raw import eventually

TOOLS = ("buildah", "debootstrap", "make")
SUITE = "trixie"
PLACE = ROOT / "build" / "image"
BASE = "localhost/odradek-test-base"
REPOSITORY = "localhost/odradek-test"
BUILD_LIMIT_S = 900
USER_ID = 1000
SOURCES = {".py", ".css", ".js", ".svg"}
HOST_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATES_IN_BASE = "etc/ssl/certs/of-the-host.crt"
BUILDAH = (
    *("buildah", "--root", str(PLACE / "storage"), "--runroot", str(PLACE / "run"), "--storage-driver", "vfs"),
)  # fmt: skip


@functools.cache
def missing() -> str:
    """Say why no image can be built here; empty when one can."""
    if os.geteuid():
        return "only root may build images this way"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def buildah(*arguments: str, timeout_s: float = 60) -> str:
    """Run buildah to its end and return what it printed."""
    done = subprocess.run([*BUILDAH, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"buildah {shlex.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep the other workers of a run from building what we are building."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built() -> str:
    """Return the name of the image of these sources, built if there is none."""
    name = f"{REPOSITORY}:{_hash_of_context()}"
    with _alone():
        images = buildah("images", "--format", "{{.Name}}:{{.Tag}}").splitlines()
        if f"{BASE}:latest" not in images:
            _make_base()
        if name not in images:
            _build(name)
    return name


def _hash_of_context() -> str:
    """Hash what goes into the image."""
    paths = [ROOT / name for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-build.lock")]
    paths += [path for path in (ROOT / "docker").iterdir() if path.is_file()]
    for package in ("broker", "config", "native", "protocol", "storage"):
        paths += (path for path in (ROOT / package).rglob("*") if path.suffix in SOURCES)
    content = hashlib.sha256()
    for path in sorted(paths):
        content.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return content.hexdigest()[:16]


def _build(name: str) -> None:
    builder = shlex.join(BUILDAH)
    options = f"--isolation chroot --layers=false --quiet --build-arg BASE={BASE} --tag {name}"
    subprocess.run(
        ["make", "--no-print-directory", "image", f"BUILDER={builder}", f"IMAGE_OPTIONS={options}"],
        cwd=ROOT,
        check=True,
        timeout=BUILD_LIMIT_S,
        stdout=subprocess.DEVNULL,
    )


def _make_base() -> None:
    """Make the smallest Debian, which reaches the registries in the way this machine does."""
    container = buildah("from", "scratch")
    root = Path(buildah("mount", container))
    command = ["debootstrap", "--variant=minbase", SUITE, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    for path in (*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*_*")):
        path.unlink()
    if HOST_CERTIFICATES.exists():
        certificates = root / CERTIFICATES_IN_BASE
        certificates.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HOST_CERTIFICATES, certificates)
    (root / "etc" / "pip.conf").write_text(_pip_settings(), encoding="utf-8")
    buildah("commit", "--quiet", "--rm", container, BASE, timeout_s=BUILD_LIMIT_S)


def _pip_settings() -> str:
    """Return this machine's settings of pip, but for paths that only it has."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$", listed, re.MULTILINE)
    settings = {key: value for key, value in found if key in ("index-url", "extra-index-url", "trusted-host")}
    if HOST_CERTIFICATES.exists():
        settings["cert"] = f"/{CERTIFICATES_IN_BASE}"
    return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())


class Container:
    """A container of an image, with the process that was started in it."""

    def __init__(self, image: str, directory: Path) -> None:
        self.name = buildah("from", image)
        self.root = Path(buildah("mount", self.name))
        self.log_path = directory / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None  # that of buildah; set by start

    def start(
        self,
        *command: str,
        environment: Mapping[str, str] | None = None,
        volumes: Mapping[Path, str] | None = None,
    ) -> None:
        """Start a command, or what the image starts by itself."""
        words = [*BUILDAH, "run", *self._options(environment, volumes), self.name, "--"]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*words, *(command or ("/etc/kafka/docker/run",))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, within_s: float = 30) -> None:
        """Wait for the ready line."""

        def ready() -> bool:
            assert self.process is not None and self.process.poll() is None, self.log_text()
            return READY_LINE in self.log_text()

        eventually(ready, within_s=within_s, every_s=POLL_INTERVAL_S, what="the container is ready")

    def run(self, *command: str, environment: Mapping[str, str] | None = None, stdin: str = "") -> str:
        """Run another command in it, as `docker exec` does, and return what it printed."""
        words = [*BUILDAH, "run", *self._options(environment, None), self.name, "--", *command]
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{shlex.join(command)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    @staticmethod
    def _options(environment: Mapping[str, str] | None, volumes: Mapping[Path, str] | None) -> Sequence[str]:
        options = ["--isolation", "chroot"]
        for name, value in (environment or {}).items():
            options += ["--env", f"{name}={value}"]
        for source, target in (volumes or {}).items():
            options += ["--volume", f"{source}:{target}"]
        return options

    def log_text(self) -> str:
        """Return what the process has printed."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def broker_pid(self) -> int:
        """Return the id of the broker's process: the one below buildah's that has become `odradek serve`."""
        assert self.process is not None
        below = [self.process.pid]
        for pid in below:
            with contextlib.suppress(FileNotFoundError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"serve" in words and os.stat(f"/proc/{pid}").st_uid == USER_ID:
                    return pid
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    below += map(int, (thread / "children").read_text().split())
        raise AssertionError(f"no broker runs:\n{self.log_text()}")

    def stop(self, number: signal.Signals = signal.SIGTERM, *, within_s: float = 30) -> int:
        """Send the broker a signal, as an engine does to process 1, and return the exit status."""
        os.kill(self.broker_pid(), number)
        return self.wait(within_s=within_s)

    def wait(self, *, within_s: float = 30) -> int:
        """Wait for the process to end."""
        assert self.process is not None
        status = self.process.wait(within_s)
        self.process = None
        return status

    def close(self) -> None:
        """End what still runs and take the container away."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        buildah("rm", self.name)


def size_bytes(root: Path) -> int:
    """Return what the files below a directory hold, each counted once."""
    seen: dict[tuple[int, int], int] = {}
    for folder, _, names in os.walk(root):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values())


def changed_files(root: Path, *, since: float) -> list[str]:
    """Return the files below a directory that were written after a time; what was mounted there does not count."""
    found = []
    for folder, _, names in os.walk(root):
        paths = (os.path.join(folder, name) for name in names)
        found += [path for path in paths if os.lstat(path).st_mtime > since]
    return found


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def running_seconds(pid: int) -> float:
    """Return how long ago a process was started, by the script that became it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":  # to have it built before tests wait for it
    print(built())
