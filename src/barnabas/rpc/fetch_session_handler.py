"""The client's side of an incremental fetch session (KIP-227), and the positions that a follower wants. Pure.

A FetchSessionHandler is made by the consumer's Fetcher and by a follower's connection to its leader, one for each node
that is fetched from, and owned by the fetching thread. The broker remembers which partitions were requested. A request
names only partitions that are new, have another offset or are no longer wanted; an answer names only those that have
changed. One request is in flight at a time: `build` or `build_changes`, then `handle_response` or `handle_error`.

Requests have topic ids (KIP-516) if every partition of the session has one. Where ids and names alternate, the broker
answers FETCH_SESSION_TOPIC_ID_ERROR, and the next request begins another session. A topic that was deleted and created
again has another id: its partitions are forgotten by the old id and added by the new one in the same request.

Kafka: org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode, error_of
from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.rpc.fetch_request import (
    LAST_VERSION_WITH_NAMES,
    FetchLimits,
    FetchPosition,
    FetchRequestData,
    FetchSessionPlace,
    TopicIdPartition,
    fetch_request,
)

logger = logging.getLogger(__name__)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1

_ALL_DIFFERENT: Final = 3

_INITIAL: Final = FetchSessionPlace(NO_SESSION, INITIAL_EPOCH)


class PositionChanges(NamedTuple):
    """The positions that are new or other than before, and the partitions that are wanted no more."""

    changed: list[FetchPosition]
    gone: list[TopicPartition]


class WantedPositions:
    """The positions that a follower wants to fetch from, one a partition, and what changed since its last request.

    Owned by one fetcher thread, which puts and drops positions; its connection takes the changes. Neither of them looks
    at the partitions that stay as they are. Iterating gives all positions.
    """

    __slots__ = ("_all", "_former")

    def __init__(self) -> None:
        self._all: dict[TopicPartition, FetchPosition] = {}
        self._former: dict[TopicPartition, FetchPosition | None] = {}
        """What the last request said of the partitions that were put or dropped since."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[FetchPosition]:
        return iter(self._all.values())

    def put(self, position: FetchPosition) -> None:
        """Add a partition, or give it another position."""
        partition = position.topic_partition
        self._former.setdefault(partition, self._all.get(partition))
        self._all[partition] = position

    def drop(self, partition: TopicPartition) -> None:
        """Remove a partition."""
        before = self._all.pop(partition, None)
        if before is not None:
            self._former.setdefault(partition, before)

    def take_changes(self) -> PositionChanges:
        """Return what has changed since the last call."""
        former, self._former = self._former, {}
        changed, gone = [], []
        for partition, before in former.items():
            now = self._all.get(partition)
            if now is None:
                if before is not None:
                    gone.append(partition)
            elif now != before:
                changed.append(now)
        return PositionChanges(changed, gone)


class FetchSessionHandler:
    """The partitions that the broker remembers, and the session and epoch of the next request."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._next = _INITIAL
        self._known: dict[TopicPartition, FetchPosition] = {}
        self._names: dict[bytes, str] = {}
        """The topics of the session by their ids; empty while requests name topics."""

    @property
    def session_id(self) -> int:
        """The session's id, or 0."""
        return self._next.session_id

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """The partitions that the broker has in the session once it has received the request of `build`."""
        return self._known.keys()

    def build(self, positions: Iterable[FetchPosition]) -> FetchRequestData:
        """Return the request that fetches exactly `positions`. A full request names them in this order."""
        wanted = {position.topic_partition: position for position in positions}
        uses_ids = all(position.topic_id != ZERO_UUID for position in wanted.values())
        if self._next.epoch == INITIAL_EPOCH:
            changed, forgotten, replaced = list(wanted.values()), [], []
        else:
            known = self._known
            changed = [position for partition, position in wanted.items() if known.get(partition) != position]
            forgotten = [
                TopicIdPartition(before.topic_id, each) for each, before in known.items() if each not in wanted
            ]
            replaced = [
                TopicIdPartition(known[each.topic_partition].topic_id, each.topic_partition)
                for each in changed
                if each.topic_partition in known
                and len({known[each.topic_partition].topic_id, each.topic_id, ZERO_UUID}) == _ALL_DIFFERENT
            ]
            # A partition that came into the session by its name can leave it only by its name.
            uses_ids = uses_ids and all(topic_id != ZERO_UUID for topic_id, _ in forgotten)
        self._known = wanted
        self._names = {each.topic_id: each.topic_partition.topic for each in wanted.values()} if uses_ids else {}
        return FetchRequestData(changed, self._next, forgotten, replaced, uses_ids)

    def build_changes(self, wanted: WantedPositions) -> FetchRequestData:
        """Return the request that fetches exactly the positions of `wanted`, looking at nothing but their changes.

        Each call takes the changes, so that all requests of the handler have to be built by it.
        """
        changed, gone = wanted.take_changes()
        known, names = self._known, self._names
        if self._next.epoch == INITIAL_EPOCH or not names:
            return self.build(wanted)
        for position in changed:
            partition, topic_id = position.topic_partition, position.topic_id
            before = known.get(partition)
            # Or the topic was created again: the session knows the partition by the old id.
            if topic_id == ZERO_UUID or (before is not None and before.topic_id != topic_id):
                return self.build(wanted)
        for position in changed:
            known[position.topic_partition] = position
            names[position.topic_id] = position.topic_partition.topic
        forgotten = [TopicIdPartition(known.pop(each).topic_id, each) for each in gone] if gone else []
        return FetchRequestData(changed, self._next, forgotten, [], uses_topic_ids=True)

    def topic_name(self, topic: FetchableTopicResponse, version: int) -> str | None:
        """Return the name of a topic of an answer, or None for an id that the session does not have."""
        return topic.topic if version <= LAST_VERSION_WITH_NAMES else self._names.get(topic.topic_id)

    def partitions_of(self, response: FetchResponse, version: int) -> dict[TopicPartition, PartitionData]:
        """Return the partitions of an answer by name; an id that is not one of the session's gives the name ""."""
        found: dict[TopicPartition, PartitionData] = {}
        for topic in response.responses:
            name = self.topic_name(topic, version) or ""
            for partition in topic.partitions:
                found[TopicPartition(name, partition.partition_index)] = partition
        return found

    def handle_response(
        self, response: FetchResponse, version: int, answered: Collection[TopicPartition] | None = None
    ) -> bool:
        """Take note of an answer. Returns False if its partitions must not be used.

        That is so for an error, and for an answer whose partitions are not those requested. answered: the names of
        `partitions_of`, if the caller has asked for them.

        Partitions that an answer in a session leaves out have not changed.
        """
        if response.error_code:
            error = error_of(response.error_code)
            logger.info(
                "Node %d was unable to process the fetch request with %s: %s.", self._node_id, self._next, error
            )
            # A full request with the id of the old session closes that one at the broker and opens another. A session
            # that the broker does not know needs no closing.
            lost = error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._next = _INITIAL if lost else self._next._replace(epoch=INITIAL_EPOCH)
            return False
        # An id that is not one of the session's becomes a partition of no topic, which is one too many.
        if answered is None:
            answered = self.partitions_of(response, version).keys()
        # A full answer must name exactly the requested partitions; an incremental one may leave any of them out.
        is_full = self._next.epoch == INITIAL_EPOCH
        # A client above its quota gets an empty answer (KIP-219).
        if is_full and not answered and response.throttle_time_ms > 0:
            self._next = _INITIAL
            return False
        known = self._known
        extra = set()
        for each in answered:
            if each not in known:
                extra.add(each)
        omitted = known.keys() - answered if is_full else set()
        if extra or omitted:
            logger.info(
                "Node %d answered a fetch with %s and left out %s", self._node_id, extra or "{}", omitted or "{}"
            )
            self._next = _INITIAL if is_full else self._next._replace(epoch=INITIAL_EPOCH)
            return False
        if response.session_id == NO_SESSION:
            self._next = _INITIAL
        elif is_full:
            self._next = FetchSessionPlace(response.session_id, INITIAL_EPOCH + 1)
        else:
            # Epochs wrap around to 1, because 0 would open another session and -1 would close this one.
            epoch = self._next.epoch
            self._next = FetchSessionPlace(self._next.session_id, 1 if epoch == _LAST_EPOCH else epoch + 1)
        return True

    def handle_error(self) -> None:
        """Note that no answer came: the next request closes the session, if the broker has it, and begins another."""
        self._next = self._next._replace(epoch=INITIAL_EPOCH)

    def closing_request(self, limits: FetchLimits) -> FetchRequest | None:
        """Return the request that ends the session at the broker, or None without a session."""
        place, self._next, self._known = self._next, _INITIAL, {}
        if place.session_id == NO_SESSION:
            return None
        return fetch_request((), limits, place._replace(epoch=FINAL_EPOCH))
