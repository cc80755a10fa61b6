"""CRC-32C (Castagnoli), the checksum of batch format v2, over any buffer. Pure; called from every thread.

Kafka: Crc32C. The `crc32c` package takes memoryview slices without a copy and releases the GIL from 32 KiB.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Final


def _function_of_extension() -> Callable[..., int]:
    """Return the package's function without the package, which asks for its version and prepares a command line.

    That imports 40 modules of the standard library, `email` and `zipfile` among them, and reads the list of installed
    distributions: a tenth of a broker's start. The extension is the package's own, of the version that is installed.
    """
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec("crc32c._crc32c", places or ())
    if spec is not None and spec.loader is not None:
        extension = module_from_spec(spec)
        spec.loader.exec_module(extension)
        return extension.crc32c  # type: ignore[no-any-return]
    # The package is laid out in another way, or is not there: it says so.
    from crc32c import crc32c as of_package  # noqa: PLC0415

    return of_package


crc32c: Final = _function_of_extension()
