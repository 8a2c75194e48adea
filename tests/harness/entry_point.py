"""The start script of the container image as a process of its own session, configured by KAFKA_* variables alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.harness.broker import ROOT, BrokerProcess

SCRIPT = ROOT / "docker" / "entrypoint"
HEALTHCHECK = ROOT / "docker" / "healthcheck"
WITHOUT_PRIVILEGES = () if os.geteuid() else ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner")
"""What to run a command by, so that root is refused what other users are."""


def variable(key: str) -> str:
    """Return the name of the variable that sets a key."""
    return "KAFKA_" + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that set these keys."""
    return {variable(key): value for key, value in properties.items()}


class EntryPoint(BrokerProcess):
    """One broker that is started by the script."""

    wrapper: tuple[str, ...] = ()
    """What the script is run by."""

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] | None = None,
        *,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, properties)
        self.others = dict(variables or {})

    def command(self) -> list[str]:
        """Return the script with its arguments."""
        return [*self.wrapper, str(SCRIPT), *self.arguments]

    def prepare(self) -> None:
        """Put `odradek` on the path, and the settings into variables."""
        programs = self.directory / "bin"
        programs.mkdir(exist_ok=True)
        program = programs / "odradek"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m broker "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": path, **variables(self.properties), **self.others}

    def set_variables(self, **given: str) -> None:
        """Set variables, beside those for keys, for the starts to come."""
        self.others.update(given)
