"""A metadata store without threads: batches run on the calling thread, watches when the test says so.

Several sessions share one table of znodes (sqlite3 in memory), as brokers share a ZooKeeper.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from barnabas.config.listeners import EndPoint
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.topic_admin import TopicAdmin, TopicAdminConfig, TopicToCreate
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateMetadataRequest
from barnabas.protocol.uuid import ZERO_UUID
from barnabas.runtime.clock import Clock
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import StoreUnavailableError
from barnabas.zk.store.store import Operation, Outcome, SessionListener, SessionState, Store
from barnabas.zk.store.watches import FiredWatch
from barnabas.zk.store.znode_table import ZnodeTable, open_database
from barnabas.zk.znodes.broker_zk_data import BrokerInfo
from tests.support.mock_clock import MockClock


class InlineStore:
    """The shared table, and the watches that wait for `deliver`."""

    def __init__(self, clock: Clock, directory: str | None = None) -> None:
        self.table = ZnodeTable(open_database(directory), clock)
        self.table.delete_ephemerals()
        self.pending: deque[Callable[[], None]] = deque()
        self._sessions = 0

    def new_session(self) -> InlineSession:
        """Another broker's session."""
        self._sessions += 1
        return InlineSession(self, self._sessions)

    def next_session_id(self) -> int:
        self._sessions += 1
        return self._sessions

    def queue(self, fired: list[FiredWatch]) -> None:
        for _, watch, event in fired:
            self.pending.append(lambda watch=watch, event=event: watch(event))  # type: ignore[misc]

    def deliver(self) -> int:
        """Call the watches that fired, and those these cause; how many."""
        called = 0
        while self.pending:
            self.pending.popleft()()
            called += 1
        return called


class InlineSession(Store):
    """One session. `before_batch`, if set, runs once before the next batch: what another broker does in between."""

    def __init__(self, store: InlineStore, session_id: int) -> None:
        self.store = store
        self.before_batch: Callable[[], None] | None = None
        self.closed = False
        self._session_id = session_id
        self._listeners: list[SessionListener] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    def submit(self, operations: Sequence[Operation]) -> Future[list[Outcome]]:
        future: Future[list[Outcome]] = Future()
        if self.closed:
            future.set_exception(StoreUnavailableError("", "closed"))
            return future
        if self.before_batch is not None:
            action, self.before_batch = self.before_batch, None
            action()
        outcomes, fired = self.store.table.apply(self._session_id, operations)
        self.store.queue(fired)
        future.set_result(outcomes)
        return future

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def expire(self, *, tells_at_once: bool = False) -> None:
        """End the session and begin another. tells_at_once: nothing uses the new session before listeners have heard
        of the end, as with a ZookeeperStore; they hear of the new session later."""
        fired = self.store.table.end_session(self._session_id)
        self._session_id = self.store.next_session_id()
        if tells_at_once:
            for listener in self._listeners:
                listener(SessionState.EXPIRED)
        for state in (SessionState.RECONNECTED,) if tells_at_once else (SessionState.EXPIRED, SessionState.RECONNECTED):
            for listener in self._listeners:
                self.store.pending.append(lambda listener=listener, state=state: listener(state))  # type: ignore[misc]
        self.store.queue(fired)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.store.queue(self.store.table.end_session(self._session_id))


class RegisteredBrokers:
    """A store with registered brokers, of which the metadata tells."""

    def __init__(self, racks: dict[int, str | None], **settings: Any) -> None:
        clock = MockClock()
        self.store = InlineStore(clock)
        self.zk = KafkaZkClient(self.store.new_session(), clock)
        self.zk.make_sure_persistent_paths_exist()
        self.cache = MetadataCache(0)
        for broker_id, rack in racks.items():
            info = BrokerInfo(broker_id, (EndPoint("h", 9092 + broker_id, "PLAINTEXT", "PLAINTEXT"),), rack)
            self.zk.register_broker(info)
        live = [UpdateMetadataRequest.UpdateMetadataBroker(id=b, rack=rack) for b, rack in racks.items()]
        self.cache.update_metadata(UpdateMetadataRequest(live_brokers=live))
        self.admin = TopicAdmin(self.zk, self.cache, TopicAdminConfig(**settings), random.Random(1))

    def error_of(self, topic: TopicToCreate) -> tuple[ErrorCode, str]:
        (result,) = self.admin.create_topics([topic])
        assert isinstance(result.error, ApiError)
        assert (result.num_partitions, result.replication_factor, result.topic_id) == (-1, -1, ZERO_UUID)
        (checked,) = self.admin.create_topics([topic], validate_only=True)
        assert checked.error is not None
        assert (checked.error.code, checked.error.message) == (result.error.code, result.error.message)
        assert topic.name not in self.zk.topics.all_topics() - {"orders", "a.b"}
        return result.error.code, result.error.message


def client_of(session: InlineSession) -> KafkaZkClient:
    client = KafkaZkClient(session, MockClock())
    client.make_sure_persistent_paths_exist()
    return client
