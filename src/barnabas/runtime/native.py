"""What a class tells the compiler; plain Python takes no notice. Imported by compiled modules (decisions/0009)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(*_: object, **__: object) -> object:
        """Return a decorator that leaves a class as it is. The compiler drops its calls."""
        return lambda decorated: decorated


__all__ = ["mypyc_attr"]
