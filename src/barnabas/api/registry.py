"""The one table of APIs, by key.

Filled by `broker.api_table` from the handler families, read by the request parser on every request, and by the
ApiVersions handler and the generated protocol coverage page. Immutable after construction, except for
`Handler.throttle` and the versions that `api.emulation` narrows before anything reads them.

Kafka: ApiVersionManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from barnabas.api.request import Handler


class HandlerFamily(Protocol):
    """Handlers of APIs that belong together; its constructor names what they touch."""

    def handlers(self) -> Sequence[Handler]:
        """Return a line of the table for each API of the family."""


class Registry:
    """All handlers by API key. Raises ValueError when two handlers have the same key."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        by_key: dict[int, Handler] = {}
        for handler in handlers:
            # At start, and not at the first request: a second handler would silently replace the first.
            if handler.api_key in by_key:
                raise ValueError(f"{handler.api_key.name} has two handlers")
            by_key[handler.api_key] = handler
        self.handlers: Mapping[int, Handler] = by_key

    def __iter__(self) -> Iterator[Handler]:
        return iter(sorted(self.handlers.values(), key=lambda handler: handler.api_key))
