"""The mark of a compiled class that interpreted code may subclass (decisions/0009-compiled-build.md).

The compiler reads the mark and nothing calls it later; where nothing was compiled the name may be unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

try:
    from mypy_extensions import mypyc_attr
except ImportError:

    def mypyc_attr(*attributes: str, **values: object) -> Callable[[T], T]:  # noqa: ARG001
        """Return a decorator that leaves its class as it is."""
        return lambda marked: marked


__all__ = ["mypyc_attr"]
