"""What the interceptors of producers and consumers have in common: they are checked, called in order, and never raise.

Used by `ProducerInterceptors` and `ConsumerInterceptors`, on the threads that those name; the list never changes, so no
lock. Kafka: ProducerInterceptors, ConsumerInterceptors.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

I = TypeVar("I")  # noqa: E741 an interceptor
V = TypeVar("V")


class Interceptors(Generic[I]):
    """The user's interceptors of one client. `methods`: the names of those that each must have."""

    def __init__(self, interceptors: Sequence[I], methods: Sequence[str]) -> None:
        """Keep the interceptors. Raises TypeError for an object that lacks one of the methods, and for a class."""
        for each in interceptors:
            if isinstance(each, type) or not all(callable(getattr(each, name, None)) for name in methods):
                needed = f"{', '.join(methods[:-1])} and {methods[-1]}"
                raise TypeError(f"interceptor_classes must be objects with {needed}, not {each!r}")
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._interceptors)

    def close(self) -> None:
        """Close all interceptors."""
        self._call_all("close")

    def _call_all(self, method: str, *arguments: object) -> None:
        """Call a method of all interceptors, and log what one raises."""
        for interceptor in self._interceptors:
            try:
                getattr(interceptor, method)(*arguments)
            except Exception:
                logger.exception("Error executing interceptor %s of %r", method, interceptor)

    def _pass_through(self, method: str, value: V, kind: type[V], expected: str) -> V:
        """Return the value after a method of all interceptors, each of which returns it or another one.

        An interceptor that raises, or returns no `kind`, is passed over; the log says that it must return `expected`.
        """
        for interceptor in self._interceptors:
            try:
                changed: object = getattr(interceptor, method)(value)
                # A forgotten `return`, most likely.
                if not isinstance(changed, kind):
                    raise TypeError(f"{method} must return {expected}, not {changed!r}")
                value = changed
            except Exception:
                logger.exception("Error executing interceptor %s of %r", method, interceptor)
        return value
