"""`odradek config [server.properties] [--override key=value …]`: what is in force, and where it comes from."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker.cli.settings import read_settings
from config.docs import render_effective


def run(arguments: Sequence[str]) -> int:
    """Print every key with its value and its source."""
    text = "Print the configuration in force and where each value comes from."
    sys.stdout.write(render_effective(read_settings("config", text, arguments)))
    return 0
