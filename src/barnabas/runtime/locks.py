"""The lock of the hot path: `threading.Lock`, and in the compiled build one that is taken without a look-up by name.

The compiled build takes this module from `native/` (decisions/0009-compiled-build.md). Everything that a request passes
makes its locks here; any thread may.
"""

from __future__ import annotations

from threading import Lock

__all__ = ["Lock"]
