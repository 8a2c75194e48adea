"""`python -m broker`: the same as the `odradek` command."""

import sys

from broker.cli import main

if __name__ == "__main__":
    sys.exit(main())
