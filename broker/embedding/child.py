"""`python -m broker.embedding.child`: the process of an embedded broker, up to the point where it knows its order.

Standard input is a socket to the program that started it.
"""

from __future__ import annotations

import socket
import sys

from broker.embedding.messages import MAX_LINE_BYTES, unpack
from broker.runtime.garbage import load_modules


def main() -> int:
    """Take the order and carry it out; the exit status."""
    with socket.socket(fileno=0) as channel:
        with channel.makefile("rb") as incoming:
            line = incoming.readline(MAX_LINE_BYTES)
        if not line:
            return 1  # whoever started us is gone already
        (owned,) = load_modules("broker.embedding.owned")
        status: int = owned.run(unpack(line), channel)
        return status


if __name__ == "__main__":
    sys.exit(main())
