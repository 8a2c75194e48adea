"""Headless Chromium, driven through the DevTools protocol over a pair of pipes: no driver and no library is needed.

Shape of a message on the pipes: JSON, then a zero byte. Calls are answered in any order; events come in between.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.harness.raw import eventually

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
TIMEOUT_S = 30.0
# Chromium expects the pipes at descriptors 3 and 4.
_PLUMBING = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def _pipe() -> tuple[int, int]:
    """Return the ends of a pipe, at descriptors that Chromium's two do not take the place of."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


class Chromium:
    """One browser with one tab."""

    def __init__(self, executable: str, profile: Path) -> None:
        to_browser, self._out = _pipe()
        self._in, from_browser = _pipe()
        self._buffer = b""
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        command = [executable, *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PLUMBING, str(to_browser), str(from_browser), *command],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session = ""
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    # --- the protocol ---

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result; events that come meanwhile are kept."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            is_there, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            assert is_there, "Chromium does not answer"
            got = os.read(self._in, 1 << 20)
            assert got, "Chromium has ended"
            self._buffer += got
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Ask again and again until something is true, and return it."""
        return eventually(condition, within_s=TIMEOUT_S, what=what)

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(OSError, AssertionError):
            self._session = ""
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    # --- what a test does with it ---

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False, print_media: bool = False) -> None:
        """Choose the size of the window and what the user prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", media="print" if print_media else "", features=features)

    def open(self, url: str, *, scripts: bool = True) -> None:
        """Load a page, and wait until all of it is there."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.call("Page.navigate", url=url)

        def is_loaded() -> bool:
            self.call("Runtime.evaluate", expression="0")  # takes events in
            return any(event.get("method") == "Page.loadEventFired" for event in self.events)

        self.wait(is_loaded, f"load of {url}")

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript in the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and release a key."""
        code = {"Tab": 9, "Enter": 13}[key]
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text="\r" if key == "Enter" else "", **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def requested(self, page: str) -> list[str]:
        """Return the addresses that a page has asked for since it was opened."""
        asked = (event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [event["request"]["url"] for event in asked if event["documentURL"] == page]

    def complaints(self) -> list[str]:
        """Return what the page has written to the console, and exceptions, since it was opened."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    def picture(self, file: Path, *, whole: bool = True) -> None:
        """Save what is seen as a PNG."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))


@contextlib.contextmanager
def chromium(executable: str, profile: Path) -> Iterator[Chromium]:
    """Give a browser, and end it."""
    browser = Chromium(executable, profile)
    try:
        yield browser
    finally:
        browser.close()
