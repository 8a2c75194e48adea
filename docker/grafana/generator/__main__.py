"""Writes the dashboards beside this folder: python docker/grafana/generator (part of `make docs`)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from boards import groups, overview, process, requests, storage, topics
from shapes import render

BOARDS = (overview.BOARD, topics.BOARD, groups.BOARD, storage.BOARD, requests.BOARD, process.BOARD)


def main(directory: Path) -> None:
    """Write one file for each dashboard, named by its uid."""
    for board in BOARDS:
        text = json.dumps(render(board), indent=2, ensure_ascii=False)
        (directory / f"{board.uid}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "dashboards")
