"""``python -m tests.bench.kafka``."""

import sys

from tests.bench.kafka.run import main

sys.exit(main())
