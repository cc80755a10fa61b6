"""The request layer: what a parsed request is, which handler answers it, and how answers leave.

Called by the network layer (processors and request handlers); knows no sockets and owns no threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

try:
    # Read by the compiler, and called by nothing later: without it the name may be unknown (decisions/0009).
    from mypy_extensions import mypyc_attr
except ImportError:

    def mypyc_attr(*attributes: str, **values: object) -> Callable[[T], T]:  # noqa: ARG001
        """Return a decorator that leaves its class as it is."""
        return lambda marked: marked


__all__ = ["mypyc_attr"]
