"""Families of handlers that a broker imports and makes when the first of their requests comes.

Most brokers answer a third of the APIs in their life, and each family brings messages and services of its own: a start
that imported them all would load nearly 50 modules more. The table of APIs (`broker.api_table`) has a line for each API
all the same, with the versions of `protocol.message_index`.

    first request   its bytes are left undecoded on the network thread, whatever their number (`brief.UNDECODED`);
                    a handler thread decodes them, which imports the messages, and calls the line, which imports and
                    makes the families, fills all their lines and goes on with the request
    later ones      find a line like any other

What is imported together is what messages of one module (of `protocol.messages`) are for. `_lock` is held while the
families are made, so that they are made once; lines are filled under it, by single assignments, and read without it.
Kafka's JVM loads the classes of a request likewise, when the first one is parsed on a network thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from barnabas.api.brief import UNDECODED
from barnabas.api.registry import HandlerFamily
from barnabas.api.request import Handler, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.message_index import MESSAGES
from barnabas.protocol.messages.message import Message


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
