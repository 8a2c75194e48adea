"""The CRC that everything on disk rests on."""

import subprocess
import sys

from protocol.records.crc import crc32c


def test_the_check_value_of_crc32c():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(b"0123456789"))[1:]) == 0xE3069283


def test_importing_it_does_not_drag_in_package_metadata():
    code = "import sys, protocol.records.crc; sys.exit(bool({'importlib.metadata', 'crc32c'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
