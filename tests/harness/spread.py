"""How the suite is spread over workers that run side by side (`pytest -n`): whole files, in the order of collection.

The tests of a file stay together, since they share brokers; so do all files that compare with one Apache Kafka.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# A second Apache Kafka costs its start, and a thirtieth of a processor until the run ends.
ONE_KAFKA = tuple(
    f"tests/conformance/test_{name}" for name in ("side_by_side_", "group_tools_beside_", "tools_beside_")
)


class ByFile(LoadScopeScheduling):
    """Gives a worker that is nearly out of work the next file."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # else by the number of tests

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return ONE_KAFKA[0] if file.startswith(ONE_KAFKA) else file
