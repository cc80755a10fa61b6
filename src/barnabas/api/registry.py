"""The one table of APIs: key, versions, handler, and marks.

Filled by `broker` from the handler families, read by the request parser and by Apis on every request, and by the
ApiVersions handler and the generated protocol coverage page. Immutable after construction, but for
`Handler.throttle`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, Protocol

from barnabas.api.request import Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.message_index import request_class
from barnabas.protocol.messages.message import Message
from barnabas.quota.controller_mutation_quota import ControllerMutationQuota

ErrorResponse = Callable[[Request[Any], ErrorCode, str | None], Message | None]

BRIEF_LIMIT_BYTES: Final = 8 * 1024
"""About a millisecond: 500 partitions of ListOffsets, 240 of a Fetch (docs/decisions/0013-what-runs-at-once.md)."""


class ThrottledBy(Enum):
    """What a request is charged for, and may have its connection muted for."""

    REQUEST = "the time it took"
    """Kafka: sendResponseMaybeThrottle."""
    NOTHING = "nothing"
    """Between brokers: the time is counted apart. Kafka: sendResponseExemptThrottle."""
    PRODUCE = "its bytes, and the time it took"
    FETCH = "the bytes of its answer, and the time it took; nothing if a follower asks"
    CONTROLLER_MUTATION = "partitions created and deleted, and the time it took"
    CREATION = "the time it took; partitions created on the way are counted, and make nobody wait for this"


THROTTLED_BY: Final[Mapping[ApiKey, ThrottledBy]] = {
    ApiKey.PRODUCE: ThrottledBy.PRODUCE,
    ApiKey.FETCH: ThrottledBy.FETCH,
    ApiKey.CREATE_TOPICS: ThrottledBy.CONTROLLER_MUTATION,
    ApiKey.CREATE_PARTITIONS: ThrottledBy.CONTROLLER_MUTATION,
    ApiKey.DELETE_TOPICS: ThrottledBy.CONTROLLER_MUTATION,
    ApiKey.METADATA: ThrottledBy.CREATION,
    ApiKey.FIND_COORDINATOR: ThrottledBy.CREATION,
    ApiKey.LEADER_AND_ISR: ThrottledBy.NOTHING,
    ApiKey.STOP_REPLICA: ThrottledBy.NOTHING,
    ApiKey.UPDATE_METADATA: ThrottledBy.NOTHING,
    ApiKey.CONTROLLED_SHUTDOWN: ThrottledBy.NOTHING,
    ApiKey.ALTER_PARTITION: ThrottledBy.NOTHING,
    ApiKey.WRITE_TXN_MARKERS: ThrottledBy.NOTHING,
}
"""What each API's requests are charged for, if not for the time alone (Kafka: which of its send methods KafkaApis
calls). By key, so that no line of the table can forget it."""


class Throttle(Protocol):
    """Charges requests to their clients, and mutes the connections of those that exceed a quota (`api.throttle`).

    Any thread that answers a request may call it.
    """

    def charge(self, request: Request[Any], response: Message | None) -> None:
        """Charge `request`, unless its handler did, before it is answered; None: it gets no answer."""

    def charge_nobody(self, request: Request[Any]) -> None:
        """Only count the time that `request` took: a broker sent it."""

    def charge_fetch(self, request: Request[Any], size: int) -> int:
        """Charge a consumer for `size` bytes about to be sent, and for the time it took. Unless this returns 0, they
        must not be sent: the answer is empty, and says this throttle time in milliseconds."""

    def max_fetch_bytes(self, request: Request[Any]) -> int | None:
        """The most that a consumer may fetch at once; more would be throttled whatever it fetched before."""

    def mutation_quota(self, request: Request[Any], strict_since: int) -> ControllerMutationQuota:
        """What `request` may create and delete. From version `strict_since` on it may be refused."""

    def charge_mutations(self, request: Request[Any], quota: ControllerMutationQuota, response: Message) -> None:
        """Charge a request that changed topics, before it is answered by `response`."""


class Handler:
    """One line of the table.

    handle: answers a request, now or later, through `request.respond`; may raise ApiError.
    error_response: that API's answer when the whole request failed with one error; None where the client waits for
    none, which closes the connection.
    brief: never blocks and never works long, so it may run at once on the processor's thread, from version
    `brief_from` on: older ones may have to convert records. A request of more than `brief_limit_bytes` names so many
    partitions that it works long all the same.
    throttled_by: what its requests are charged for where quotas are configured (`THROTTLED_BY`).
    listed: whether ApiVersions names it.
    """

    __slots__ = (
        "api_key",
        "brief",
        "brief_from",
        "brief_limit_bytes",
        "decoders",
        "error_response",
        "handle",
        "listed",
        "max_version",
        "min_version",
        "throttle",
        "throttled_by",
    )

    def __init__(
        self,
        api_key: ApiKey,
        min_version: int,
        max_version: int,
        handle: Callable[[Request[Any]], None],
        error_response: ErrorResponse,
        *,
        brief: bool = False,
        brief_from: int = 0,
        brief_limit_bytes: int = BRIEF_LIMIT_BYTES,
        listed: bool = True,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version
        self.handle = handle
        self.error_response = error_response
        self.brief = brief
        self.brief_from = brief_from
        self.brief_limit_bytes = brief_limit_bytes
        self.throttled_by = THROTTLED_BY.get(api_key, ThrottledBy.REQUEST)
        self.listed = (min_version, max_version) if listed else None
        """The versions that ApiVersions names."""
        self.throttle: Throttle | None = None
        """Set, by one assignment, while a quota is in force that its requests are charged to."""
        self.decoders = request_class(api_key).decoders
        """The body decoder of each version, compiled when first asked for."""


class Registry:
    """All handlers by API key."""

    def __init__(self, handlers: Iterable[Handler]) -> None:
        by_key: dict[int, Handler] = {}
        for handler in handlers:
            if handler.api_key in by_key:
                raise ValueError(f"{handler.api_key.name} has two handlers")
            by_key[handler.api_key] = handler
        self.handlers: Mapping[int, Handler] = by_key

    def __iter__(self) -> Any:
        return iter(sorted(self.handlers.values(), key=lambda handler: handler.api_key))
