"""The one table of APIs, by key, and its narrowing to one release of Apache Kafka (`broker.emulate.version`).

Filled by `broker.api_table` from the handler families, whose lines are narrowed first. Read by the request parser on
every request, and by the ApiVersions handler and the generated protocol coverage page. Immutable after construction,
except for `Handler.throttle`.

Kafka: ApiVersionManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from barnabas.api.request import Handler
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kafka_releases import VersionRange, listed_versions, served_versions

# The controller and the brokers of one cluster may be of different releases while it is upgraded.
BETWEEN_BROKERS: Final = frozenset(
    (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    )
)


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


def narrowed(handlers: Iterable[Handler], release: str) -> list[Handler]:
    """Return the handlers that the release has, with their versions narrowed in place. release: one of RELEASES.

    Clients then see, and are allowed, what a broker of that release has, as far as this one has it too. The requests
    between brokers and the controller stay as they are, whatever ApiVersions lists: the brokers of a cluster agree on
    those by `inter.broker.protocol.version`.
    """
    served, listed = served_versions(release), listed_versions(release)
    kept = []
    for handler in handlers:
        own = handler.min_version, handler.max_version
        if handler.api_key in BETWEEN_BROKERS:
            handler.listed = None if handler.api_key not in listed else _overlap(own, listed[handler.api_key])
            kept.append(handler)
            continue
        if handler.api_key not in served or (both := _overlap(own, served[handler.api_key])) is None:
            continue
        handler.min_version, handler.max_version = both
        if handler.listed is not None:
            handler.listed = _overlap(own, listed[handler.api_key])
        kept.append(handler)
    return kept


def _overlap(first: VersionRange, second: VersionRange) -> VersionRange | None:
    lowest, highest = max(first[0], second[0]), min(first[1], second[1])
    return (lowest, highest) if lowest <= highest else None
