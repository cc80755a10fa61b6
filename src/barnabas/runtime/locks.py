"""The locks of the hot path: those of `threading`; in the compiled build native ones, taken without a look-up by name.

The compiled build takes this module from `native/` (decisions/0009-compiled-build.md). Everything that a request passes
makes its locks here; any thread may.
"""

from __future__ import annotations

from threading import Lock
from threading import RLock as ReentrantLock

__all__ = ["Lock", "ReentrantLock"]
