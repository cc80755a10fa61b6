"""When the consumer asks a node for records, and whether the node may wait for some. Pure.

Made by the Fetcher, one for each node that it fetches from; owned by the consumer's thread; no lock.

A fetch session allows one fetch in flight at a node (KIP-227), and a node holds back the answer to a fetch without
records for `fetch_max_wait_ms`. Java's consumer sends such a fetch as soon as some partition of the node has no
buffered records. When the other partitions' records have been read meanwhile, they have to wait for that answer, though
the node has more of their records. The rules here avoid that:

- A fetch may wait only when no records of the node are buffered, and no answer has shown that there are more.
- While records are buffered, the node is asked again when half of them have been read, so that the next ones arrive
  before the last ones are read. It answers at once, even without records. An answer without records is not repeated
  until the buffer is empty.
- A partition without buffered records is asked for at least once in `fetch_max_wait_ms`, however slowly the records of
  the other partitions are read.

For example, partitions 0 and 1 have one leader; 0 has 10 MB, 1 has nothing, and an answer has 1 MB of a partition at
most. The first fetch asks for both and is answered with 1 MB of 0. When 512 KB have been read, the second fetch asks
for 0 behind the buffered records, and for 1. The answer may not wait: 512 KB are unread, and the high watermark in the
first answer shows that 0 has more. So 0 never pauses; and once 0 is read to its end, the fetch for both may wait.

Kafka: AbstractFetch.prepareFetchRequests.
"""

from __future__ import annotations

from barnabas.rpc.fetch_request import FetchPosition
from barnabas.rpc.fetch_session_handler import FetchSessionHandler


class FetchPlan:
    """What is known of one node's partitions when a fetch is considered.

    positions: the partitions to ask for. unread_bytes: the size of the buffered records of all partitions.
    has_more: whether an answer has shown that there are records at one of the positions.
    """

    __slots__ = ("has_more", "positions", "unread_bytes")

    def __init__(self) -> None:
        self.positions: list[FetchPosition] = []
        self.unread_bytes = 0
        self.has_more = False


class NodeFetches:
    """The fetches from one node: its session, and what the last answer brought. Times are monotonic milliseconds."""

    __slots__ = ("_came_empty", "_is_fresh", "_most_unread_bytes", "in_flight", "max_wait_ms", "sent_ms", "session")

    def __init__(self, node_id: int, max_wait_ms: int) -> None:
        self.max_wait_ms = max_wait_ms
        self.session = FetchSessionHandler(node_id)
        self.in_flight = False
        """Whether the node has not answered its fetch yet."""
        self.sent_ms = 0
        """When the last fetch was sent."""
        self._came_empty = False
        self._is_fresh = False
        """Whether no fetch was considered since the last answer."""
        self._most_unread_bytes = 0
        """The size of the buffered records after the last answer."""

    def wait_ms(self, plan: FetchPlan, now_ms: int) -> int | None:
        """Return how long the node may wait for records with its answer, or None if it is not asked now."""
        if self._is_fresh:
            self._is_fresh = False
            self._most_unread_bytes = plan.unread_bytes
        if self.in_flight or not plan.positions:
            return None
        if not plan.unread_bytes:
            return 0 if plan.has_more else self.max_wait_ms
        if now_ms - self.sent_ms >= self.max_wait_ms:
            return 0
        is_low = plan.unread_bytes <= self._most_unread_bytes // 2
        return 0 if is_low and (plan.has_more or not self._came_empty) else None

    def sent(self, now_ms: int) -> None:
        """Note that a fetch was sent."""
        self.in_flight = True
        self.sent_ms = now_ms

    def answered(self, record_bytes: int) -> None:
        """Note the size of the records in the answer; 0 for an answer without records, or a lost one."""
        self.in_flight = False
        self._came_empty = not record_bytes
        self._is_fresh = True
