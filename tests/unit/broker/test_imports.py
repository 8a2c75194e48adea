"""What a start may load: everything else waits until it is used."""

import subprocess
import sys

UNUSED_BY_A_START = (
    # with the first scrape; the library brings a web server and a mail parser along
    "prometheus_client",
    "http.server",
    "email",
    "broker.lag.look",
    # with the first look at the status page
    "broker.status.pages",
    "broker.status.html.markup",
    "html",
    # with the first batch, expression or check that needs them
    "snappy",
    "lz4",
    "zstandard",
    "re2",
    # of a C extension the extension alone
    "crc32c",
    "importlib.metadata",
)


def test_serving_loads_nothing_that_a_start_does_not_use():
    code = "import sys, broker.serve; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(UNUSED_BY_A_START) & set(loaded.stdout.split())
