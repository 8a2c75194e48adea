"""CRC-32C in C, without what the crc32c package imports around it.

Importing the package looks up its own version in the metadata of every installed distribution and loads a benchmark
command line: a tenth of the time a broker may take to start. The extension module alone is all that is needed.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Protocol

_EXTENSION = "_crc32c"


class Checksum(Protocol):
    """The function's shape."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
        """Return the CRC of `data`, or of what had the CRC `value` followed by `data`."""
        ...


def _load() -> Checksum:
    package = find_spec("crc32c")
    found = PathFinder.find_spec(_EXTENSION, package.submodule_search_locations) if package else None
    if found is None or found.loader is None:
        from crc32c import crc32c as packaged  # a build of another shape: slower to import, equal to use

        return packaged
    module = module_from_spec(found)
    found.loader.exec_module(module)
    function: Checksum = module.crc32c
    return function


crc32c = _load()
