"""How a leader has its in-sync replicas changed: a Protocol, and the way that needs nobody but the store.

`ZkAlterPartitionManager` is built by `broker`, `submit` called on any thread (request handlers, the scheduler), with no
lock held. It queues, and writes on the scheduler's thread, all that is queued in one batch: a request never waits for
the store, and a broker's death that shrinks thousands of partitions costs a few writes. `_lock` guards the queues.

Kafka: AlterPartitionManager, kafka.server.ZkAlterPartitionManager, kafka.utils.ReplicationUtils.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.zk.errors import NoNodeError, StoreError
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch

logger = logging.getLogger(__name__)

AlterPartitionCallback = Callable[[LeaderAndIsr | ApiError], None]

CHECK_INTERVAL_MS = 2500
LINGER_MS = 5000
MAX_DELAY_MS = 60_000
RETRY_MS = 1000


class AlterPartitionManager(Protocol):
    """Has the cluster agree on a partition's in-sync replicas."""

    def submit(
        self,
        partition: TopicPartition,
        topic_id: bytes,
        wanted: LeaderAndIsr,
        controller_epoch: int,
        on_done: AlterPartitionCallback,
    ) -> None:
        """Ask for `wanted`, whose partition epoch is the one it replaces.

        `on_done` is called once, on another thread or before this returns, with the leadership as written or the
        ApiError that says why it was not. INVALID_UPDATE_VERSION: somebody else wrote meanwhile, and will tell.
        """


class _Submission(NamedTuple):
    partition: TopicPartition
    wanted: LeaderAndIsr
    controller_epoch: int
    on_done: AlterPartitionCallback


class ZkAlterPartitionManager:
    """Writes partition states itself, and tells the controller by a notice, some seconds later and many at once."""

    def __init__(self, zk_client: KafkaZkClient, scheduler: Scheduler, clock: Clock) -> None:
        self._zk = zk_client
        self._scheduler = scheduler
        self._clock = clock
        self._lock = threading.Lock()
        self._submitted: list[_Submission] = []
        self._changed: set[TopicPartition] = set()
        self._last_change_ms = self._last_notice_ms = clock.milliseconds()

    def start(self) -> None:
        """Begin to send notices."""
        self._scheduler.schedule(
            "isr-change-propagation", self.maybe_propagate, delay_ms=CHECK_INTERVAL_MS, period_ms=CHECK_INTERVAL_MS
        )

    def submit(
        self,
        partition: TopicPartition,
        topic_id: bytes,
        wanted: LeaderAndIsr,
        controller_epoch: int,
        on_done: AlterPartitionCallback,
    ) -> None:
        """See AlterPartitionManager."""
        with self._lock:
            self._submitted.append(_Submission(partition, wanted, controller_epoch, on_done))
            is_first = len(self._submitted) == 1
        if is_first:
            self._scheduler.schedule("alter-isr", self._write)

    def maybe_propagate(self) -> None:
        """Send the notice if there was no change for a while, or none was sent for long."""
        now_ms = self._clock.milliseconds()
        with self._lock:
            due = self._last_change_ms + LINGER_MS < now_ms or self._last_notice_ms + MAX_DELAY_MS < now_ms
            if not self._changed or not due:
                return
            changed, self._changed = self._changed, set()
        try:
            self._zk.propagate_isr_changes(changed)
        except StoreError as error:
            logger.warning("Telling the controller of changed in-sync replicas failed, trying again: %s", error)
            with self._lock:
                self._changed |= changed
        else:
            with self._lock:
                self._last_notice_ms = now_ms

    def _write(self) -> None:
        with self._lock:
            submitted, self._submitted = self._submitted, []
        if not submitted:
            return
        states = {one.partition: LeaderIsrAndControllerEpoch(one.wanted, one.controller_epoch) for one in submitted}
        try:
            outcomes = self._zk.topics.update_partition_states(states)
        except StoreError as error:
            logger.warning("Writing in-sync replicas of %d partitions failed, trying again: %s", len(states), error)
            self._try_again(submitted)
            return
        now_ms = self._clock.milliseconds()
        with self._lock:
            self._changed.update(key for key, outcome in outcomes.items() if isinstance(outcome, int))
            self._last_change_ms = now_ms
        for one in submitted:
            outcome = outcomes[one.partition]
            try:
                one.on_done(
                    one.wanted.with_partition_epoch(outcome)
                    if isinstance(outcome, int)
                    else self._refusal(one, outcome)
                )
            except Exception:
                logger.exception("taking over the in-sync replicas of %s failed", one.partition)

    def _try_again(self, submitted: list[_Submission]) -> None:
        """What was not written may be written later: its condition is the version of the znode."""
        with self._lock:
            self._submitted = submitted + self._submitted
        self._scheduler.schedule("alter-isr", self._write, delay_ms=RETRY_MS)

    @staticmethod
    def _refusal(one: _Submission, outcome: StoreError | None) -> ApiError:
        if isinstance(outcome, NoNodeError):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(outcome))
        text = (
            f"ISR update {one.wanted} for partition {one.partition} with controller epoch {one.controller_epoch} "
            "failed with an invalid version error"
        )
        return ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
