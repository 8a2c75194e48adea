"""Debian's Prometheus as a child on loopback, and promtool: they scrape, evaluate and check as an operator's would."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.harness.machine import program
from tests.harness.ports import free_port
from tests.harness.raw import eventually

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.1
SCRAPE_INTERVAL_MS = 500


class Series(NamedTuple):
    """One series of an answer: its labels, and its last value."""

    labels: Mapping[str, str]
    value: float


def tool(name: str) -> str:
    """Return the path of prometheus or promtool; without it the test is skipped, on CI it fails."""
    return program(name, package="prometheus")


def promtool(*arguments: str, stdin: str = "", expected: Sequence[int] = (0,)) -> str:
    """Run promtool and return what it says; its exit status must be one of the expected."""
    done = subprocess.run(
        [tool("promtool"), *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in expected, done.stdout + done.stderr
    return done.stdout + done.stderr


class Prometheus:
    """One server with rules of ours that scrapes the given targets, by the names of their jobs."""

    def __init__(self, directory: Path, rules: Sequence[Path], targets: Mapping[str, str]) -> None:
        self.directory = directory
        self.url = f"http://127.0.0.1:{free_port()}"
        self._config = {
            "global": {"scrape_interval": f"{SCRAPE_INTERVAL_MS}ms", "evaluation_interval": f"{SCRAPE_INTERVAL_MS}ms"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()
            ],
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Launch it and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "prometheus.json"  # JSON is YAML
        config.write_text(json.dumps(self._config), encoding="utf-8")
        with (self.directory / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    tool("prometheus"),
                    f"--config.file={config}",
                    f"--storage.tsdb.path={self.directory / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                    "--log.level=warn",
                ],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.wait_until(self._is_ready, what="Prometheus answers", timeout_s=START_TIMEOUT_S)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def log(self) -> str:
        """Return what it has logged: nothing but warnings and errors."""
        return (self.directory / "prometheus.log").read_text(encoding="utf-8")

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data that the API answers; an error of it is a failed assertion."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error
        assert body["status"] == "success", body
        return body["data"]

    def query(self, expression: str) -> list[Series]:
        """Evaluate an expression now."""
        data = self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [Series({}, float(data["result"][1]))]
        return [Series(row["metric"], float(row["value"][1])) for row in data["result"]]

    def curve(self, expression: str, seconds: int) -> list[Sequence[float]]:
        """Evaluate an expression for each second of the last time, as a panel with curves does."""
        now = time.time()
        data = self.get("query_range", query=expression, start=f"{now - seconds}", end=f"{now}", step="1")
        return [[float(value) for _, value in row["values"]] for row in data["result"]]

    def alerts(self) -> dict[str, str]:
        """Return the state of each alert rule: inactive, pending or firing. No rule may have failed."""
        found: dict[str, str] = {}
        for group in self.get("rules", type="alert")["groups"]:
            for rule in group["rules"]:
                assert rule["health"] in ("ok", "unknown"), rule
                found[rule["name"]] = rule["state"] if rule["health"] == "ok" else "unknown"
        return found

    def annotations(self, alert: str) -> list[dict[str, str]]:
        """Return what an alert that is pending or fires says, for each of its series."""
        return [one["annotations"] for one in self.get("alerts")["alerts"] if one["labels"]["alertname"] == alert]

    def wait_until(self, condition: Callable[[], bool], *, what: str, timeout_s: float = 30.0) -> None:
        """Wait until something is so."""

        def is_so() -> bool:
            assert self._process is not None and self._process.poll() is None, f"Prometheus ended:\n{self.log()}"
            return condition()

        eventually(is_so, within_s=timeout_s, every_s=POLL_INTERVAL_S, what=what)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False
