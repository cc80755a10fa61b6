"""The marks that compiled modules give their classes: the compiler reads them, and plain Python passes them over.

Never compiled: the compiler takes the branch below that does not run for one that cannot. Kafka: none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_marks: bool) -> Callable[[type], type]:
        """Return what does nothing."""
        return lambda marked: marked


__all__ = ["mypyc_attr"]
