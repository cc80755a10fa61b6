"""Fetch: v0-18.

Brief from v4 on; runs on the Processor's thread or a handler's. `api.fetch.fetch_answer` answers, perhaps on the thread
that completes a long poll.

v0: messages of magic 0, converted while they are sent (`LazyDownConversionRecords`); v2 and v3 of magic 1.
v3: a limit of the whole answer.
v4: isolation level.
v5: log start offset.
v6: KAFKA_STORAGE_ERROR.
v7: sessions (KIP-227, `api.fetch.fetch_sessions`).
v9: leader epoch.
v10: zstd.
v11: consumers may read from followers (KIP-392).
v12: flexible; last fetched epoch.
v13: topic ids.
v15: replica state.
v16: the current leader in errors, node endpoints (KIP-951).

Kafka: KafkaApis.handleFetchRequest.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from barnabas.api.authorize import CLUSTER_NAME, Authorizer, is_allowed, permitted
from barnabas.api.brief import Brief
from barnabas.api.fetch.fetch_answer import LAST_CONVERTED, ChargedFetchAnswer, Context, FetchAnswer, FetchSources
from barnabas.api.fetch.fetch_session import FINAL_EPOCH, NO_SESSION, PartitionsToRead, RefusedPartition
from barnabas.api.fetch.fetch_sessions import TOPIC_IDS, FetchSessions, IncrementalFetch
from barnabas.api.origins import BrokerOrigin
from barnabas.api.request import Handler, Request, Throttle
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from barnabas.replica.partitions.partition_fetch import ConsumerPlace, FetchTerms, PartitionFetch, SessionReads
from barnabas.replica.replica_manager import ReplicaManager
from barnabas.runtime.clock import Clock
from barnabas.security.acl.acl_codes import AclOperation, ResourceType
from barnabas.storage.fetch_data import FetchIsolation

ISOLATION_LEVELS: Final = {0: FetchIsolation.HIGH_WATERMARK, 1: FetchIsolation.TXN_COMMITTED}
"""The end of what a consumer may read, with read_uncommitted and with read_committed."""
_LOG_END: Final = FetchIsolation.LOG_END
FOLLOWER_FETCH: Final = 11
REPLICA_STATE: Final = 15
"""Versions from which on consumers may read from followers, and followers say more of themselves."""


class FetchApi:
    """Reads the records a client asks for, and waits for them when there are too few.

    max_bytes: `fetch.max.bytes`, the broker's own limit of an answer.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        sessions: FetchSessions,
        max_bytes: int,
        clock: Clock,
        authorizer: Authorizer | None,
        brokers: BrokerOrigin,
    ) -> None:
        self._brokers = brokers
        self._reader = replicas.reader
        self._sources = FetchSources(replicas.hosted, replicas.topic_stats, metadata, clock.nanoseconds)
        self._sessions = sessions
        self._metadata = metadata
        self._max_bytes = max_bytes
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.FETCH, self.fetch, brief=Brief(since=LAST_CONVERTED + 1)),)

    def fetch(self, request: Request[FetchRequest]) -> None:
        """Read the partitions asked for; the thread that completes a long poll answers it.

        Raises ApiError for the whole request: UNKNOWN_SERVER_ERROR when the isolation level does not exist,
        CLUSTER_AUTHORIZATION_FAILED when a client that is no broker fetches as a follower. Raises NeedsHandlerThread.
        """
        body = request.body
        version = request.api_version
        terms = self._terms(request, body, version)
        is_from_follower = terms.is_from_follower
        # The final epoch without a session is how clients fetch that know no sessions: nothing to look up.
        context: Context = None
        if body.session_epoch != FINAL_EPOCH or body.session_id != NO_SESSION:
            try:
                context = self._sessions.begin(
                    body,
                    version,
                    self._metadata.image.version,
                    is_from_follower=is_from_follower,
                    brief=request.brief,
                )
            except ApiError as error:
                # Kafka answers a session error without any partition, and the client begins a new session.
                request.respond(FetchResponse(error_code=error.code))
                return
        fetches: list[PartitionFetch]
        refused: list[RefusedPartition]
        reads: SessionReads | None = None
        if context is not None and isinstance(context, IncrementalFetch):
            to_read = self._partitions_in_session(request, context, terms)
            fetches, refused, reads = to_read.partitions, to_read.refused, to_read.reads
        elif self._authorizer is None or self._is_known_readable(self._authorizer, request, terms):
            refused = []
            fetches = self._partitions_asked_for(body.topics, version, refused)
        else:
            topics, refused = self._readable(request, is_follower=is_from_follower)
            fetches = self._partitions_asked_for(topics, version, refused)
        throttle = request.handler.throttle
        if throttle is None:
            answer = FetchAnswer(request, self._sources, context, refused)
        else:
            # Before the read: what is read and then not sent would be read again and again.
            terms = _within_quota(request, throttle, terms)
            answer = ChargedFetchAnswer(
                request, self._sources, context, refused, throttle, is_from_follower=is_from_follower
            )
        waiting = self._reader.fetch_records(terms, fetches, answer, reads)
        if waiting is not None and not is_from_follower:
            # Spark's Kafka connector asks for first and last offset behind each fetch that it has sent ahead.
            request.channel.when_next_arrives(waiting.force_complete)

    def _terms(self, request: Request[FetchRequest], body: FetchRequest, version: int) -> FetchTerms:
        """Return how far and how much to read.

        Raises ApiError: UNKNOWN_SERVER_ERROR for an unknown isolation level, CLUSTER_AUTHORIZATION_FAILED for a replica
        id from a client that is no broker. Raises NeedsHandlerThread: whether it is one may have to be looked up.
        """
        replica_id, replica_epoch = body.replica_id, -1
        if version >= REPLICA_STATE and (state := body.replica_state) is not None:
            replica_id, replica_epoch = state.replica_id, state.replica_epoch
        isolation = ISOLATION_LEVELS.get(body.isolation_level)
        if isolation is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {body.isolation_level}")
        place = None
        if replica_id >= 0:
            self._brokers.require_follower(request)
            # Followers copy what is not committed yet: that is how it becomes committed.
            isolation, leader_only = _LOG_END, True
        elif version < FOLLOWER_FETCH:
            # Only a later version can send the client to a follower (KIP-392).
            leader_only = True
        else:
            leader_only = False
            if body.rack_id:
                place = ConsumerPlace(body.rack_id, request.connection.listener_name)
        max_bytes = min(body.max_bytes, self._max_bytes) if version >= 3 else self._max_bytes
        return FetchTerms(
            body.max_wait_ms,
            min(body.min_bytes, max_bytes),
            max_bytes,
            isolation,
            version <= 2,
            replica_id,
            replica_epoch,
            leader_only,
            place,
        )

    def _is_known_readable(self, authorizer: Authorizer, request: Request[FetchRequest], terms: FetchTerms) -> bool:
        """Return True where a consumer may read all topics of the request; False says nothing."""
        if terms.is_from_follower:
            return False
        by_id = request.api_version >= TOPIC_IDS
        names = self._metadata.image.topic_names
        for topic in request.body.topics:
            name = names.get(topic.topic_id) if by_id else topic.topic
            if name is not None and not authorizer.is_known_to_allow(
                request.connection, AclOperation.READ, ResourceType.TOPIC, name
            ):
                return False
        return True

    def _readable(
        self, request: Request[FetchRequest], *, is_follower: bool
    ) -> tuple[list[FetchTopic], list[RefusedPartition]]:
        """Return the topics that the client may read, and the partitions of all others; followers need one
        permission."""
        topics = request.body.topics
        by_id = request.api_version >= TOPIC_IDS
        names = self._metadata.image.topic_names
        named = [(names.get(topic.topic_id) if by_id else topic.topic, topic) for topic in topics]
        if is_follower:
            cluster = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            allowed = is_allowed(self._authorizer, request, *cluster)
            return (topics, []) if allowed else ([], _unauthorized(named, by_id))
        asked = [name for name, topic in named if name is not None for _ in topic.partitions]
        readable = permitted(self._authorizer, request, AclOperation.READ, ResourceType.TOPIC, asked)
        hidden = [(name, topic) for name, topic in named if name is not None and name not in readable]
        return [topic for name, topic in named if name is None or name in readable], _unauthorized(hidden, by_id)

    def _partitions_asked_for(
        self, topics_asked_for: list[FetchTopic], version: int, refused: list[RefusedPartition]
    ) -> list[PartitionFetch]:
        """Return what can be read.

        What the metadata does not know is added to `refused`: it neither is read nor ends a long poll.
        """
        fetches: list[PartitionFetch] = []
        image = self._metadata.image
        by_id = version >= TOPIC_IDS
        for topic in topics_asked_for:
            topic_id = b""
            name: str | None
            if by_id:
                topic_id = topic.topic_id
                name = image.topic_names.get(topic_id)
            else:
                name = topic.topic
            known = image.topics.get(name) if name is not None else None
            count = 0 if known is None else len(known.partitions)
            for asked in topic.partitions:
                partition = asked.partition
                # Numbers are usually positions; `known` finds the others.
                if known is None or not (0 <= partition < count or known.partition(partition)):
                    code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    refused.append(RefusedPartition(name or "", topic_id, partition, code))
                    continue
                # The image's string, not the request's: the same object for all fetches, with its hash computed.
                fetches.append(
                    PartitionFetch(
                        known.name,
                        partition,
                        asked.fetch_offset,
                        asked.partition_max_bytes,
                        topic_id,
                        asked.current_leader_epoch,
                        asked.last_fetched_epoch,
                        asked.log_start_offset,
                    )
                )
        return fetches

    def _partitions_in_session(
        self, request: Request[FetchRequest], context: IncrementalFetch, terms: FetchTerms
    ) -> PartitionsToRead:
        """Return the same for the partitions of a session, with those refused that the client may not read."""
        authorizer, is_follower = self._authorizer, terms.is_from_follower
        # Permissions and the closest replica change without a mark of the partition.
        reads_all = terms.place is not None or (authorizer is not None and not is_follower)
        to_read = context.partitions(self._metadata.image, reads_all=reads_all)
        if authorizer is None:
            return to_read
        fetches, refused = to_read.partitions, to_read.refused
        if is_follower:
            cluster = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            # Refused as a whole: every partition below is then hidden.
            readable: AbstractSet[str] = frozenset()
            if is_allowed(authorizer, request, *cluster):
                return to_read
        else:
            names = {each.topic for each in fetches}
            names.update([each.topic for each in refused if each.topic])
            connection, read, kind = request.connection, AclOperation.READ, ResourceType.TOPIC
            if all(authorizer.is_known_to_allow(connection, read, kind, name) for name in names):
                return to_read
            asked = [each.topic for each in fetches] + [each.topic for each in refused if each.topic]
            readable = permitted(authorizer, request, read, kind, asked)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        hidden = [
            RefusedPartition(each.topic, each.topic_id, each.partition, code)
            for each in fetches
            if each.topic not in readable
        ]
        hidden += [
            each if each.topic in readable or not (each.topic or is_follower) else each._replace(error=code)
            for each in refused
        ]
        return PartitionsToRead([each for each in fetches if each.topic in readable], hidden)


def _within_quota(request: Request[FetchRequest], throttle: Throttle, terms: FetchTerms) -> FetchTerms:
    """Limit a fetch to what the client's quota ever lets pass at once: more would be throttled again and again."""
    most = None if terms.is_from_follower else throttle.max_fetch_bytes(request)
    if most is None or most >= terms.max_bytes:
        return terms
    # A consumer's, so without what followers say.
    return FetchTerms(
        terms.max_wait_ms,
        min(terms.min_bytes, most),
        most,
        terms.isolation,
        terms.hard_max_bytes,
        leader_only=terms.leader_only,
        place=terms.place,
    )


def _unauthorized(topics: Sequence[tuple[str | None, FetchTopic]], by_id: bool) -> list[RefusedPartition]:
    return [
        RefusedPartition(
            name or "", topic.topic_id if by_id else b"", asked.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        for name, topic in topics
        for asked in topic.partitions
    ]
