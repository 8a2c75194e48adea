"""A client of the randomized workload as a process: ``actor.py KIND JSON``, with the options of `ActorOptions`.

Ends when standard input does; prints ``error TEXT`` and ends with 3 when its client told it to, as kafka-python does
when it is made while no broker is there.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys

from kafka.errors import KafkaError

from tests.history.actors import ACTORS, ActorOptions
from tests.history.clients.interface import MustEnd
from tests.history.gate import Gate, say


def main() -> None:
    """Run one life."""
    faulthandler.register(signal.SIGUSR1)
    options = ActorOptions(**json.loads(sys.argv[2]))
    gate = Gate()
    try:
        ACTORS[sys.argv[1]](options, gate).run()
    except (MustEnd, KafkaError) as failure:
        say("error", repr(failure))
        os._exit(3)  # a client that hangs may not keep the process


if __name__ == "__main__":
    main()
