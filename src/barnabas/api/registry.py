"""The one table of APIs, by key, and its narrowing to one release of Apache Kafka (`broker.emulate.version`).

Filled by `broker.stages.api_table` from the handler families, whose lines are narrowed first. Read by the request
parser on every request, and by the ApiVersions handler and the generated protocol coverage page. Immutable after
construction, except for `Handler.throttle` and the lines of late families.

Most brokers answer a third of the APIs in their life, and each family brings messages and services of its own: a start
that imported them all would load nearly 50 modules more. The table has a line for each API all the same, with the
versions of `protocol.message_index`:

    first request   its bytes are left undecoded on the network thread, whatever their number (`brief.UNDECODED`);
                    a handler thread decodes them, which imports the messages, and calls the line, which imports and
                    makes the families, fills all their lines and goes on with the request
    later ones      find a line like any other

What is imported together is what messages of one module (of `protocol.messages`) are for. A LateFamilies' `_lock` is
held while its families are made, so that they are made once; lines are filled under it, by single assignments, and read
without it. Kafka: ApiVersionManager; its JVM loads the classes of a request likewise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from barnabas.api.brief import UNDECODED
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kafka_releases import VersionRange, listed_versions, served_versions
from barnabas.protocol.message_index import MESSAGES
from barnabas.protocol.messages.message import Message

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
        self.handlers: dict[int, Handler] = by_key

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


class LateFamilies:
    """The lines of the APIs whose messages are in these modules, except those in `early`, which have a line already.

    make: imports the families and makes them. served: of the APIs of which not all versions are served. unlisted: what
    ApiVersions does not name. A test compares all of it with the families.
    """

    def __init__(
        self,
        messages: Collection[str],
        make: Callable[[], Sequence[HandlerFamily]],
        *,
        early: Collection[ApiKey] = (),
        served: Mapping[ApiKey, tuple[int, int]] | None = None,
        unlisted: bool = False,
    ) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._are_made = False
        self._lines = {
            api: Handler(
                api,
                self._handle,
                versions=None if served is None else served.get(api),
                error_answer=partial(self._error_answer, api),
                brief=UNDECODED,
                listed=not unlisted,
            )
            for api, entry in MESSAGES.items()
            if entry.family in messages and api not in early
        }

    def handlers(self) -> Sequence[Handler]:
        """Return a line for each API; all are filled when a request for any of them is handled."""
        return tuple(self._lines.values())

    def fill(self) -> None:
        """Make the families, unless that is done. Raises what their import and their construction raise.

        Raises ValueError: they do not serve the APIs that are listed.
        """
        with self._lock:
            if self._are_made:
                return
            made = {line.api_key: line for family in self._make() for line in family.handlers()}
            # A line that stayed as it is would call itself for ever.
            if made.keys() != self._lines.keys():
                raise ValueError(f"listed are {_names(self._lines)}, and served are {_names(made)}")
            for api, line in made.items():
                self._lines[api].become(line)
            self._are_made = True

    def _handle(self, request: Request[Any]) -> None:
        self.fill()
        self._lines[request.handler.api_key].handle(request)

    def _error_answer(self, api: ApiKey, *arguments: Any) -> Message | None:
        """Answer for a line that was made of one of these before it was filled (`Handler.redirected`)."""
        self.fill()
        return self._lines[api].error_answer(*arguments)


def _names(apis: Iterable[ApiKey]) -> str:
    return ", ".join(sorted(api.name for api in apis))
