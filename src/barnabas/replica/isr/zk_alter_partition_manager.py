"""Changes of in-sync replicas that a leader writes to the store itself, as brokers did before AlterPartition requests.

Made by `broker` where `inter.broker.protocol.version` is older than 2.7-IV2. Any thread calls `submit`, with no lock
held. Changes are queued and written on the scheduler's thread, all queued ones in one batch: a request never waits for
the store, and the death of a broker, which shrinks thousands of partitions, costs a few writes. `_lock` guards the
queues. An example:

     0.0 s  three leaders here propose smaller ISRs: queued; one batch writes all three, and their callbacks run;
            one notice names the three partitions
     0.1 s  a fourth one does: written; the notice has to wait
     2.5 s  a check: the last notice is less than NOTICE_INTERVAL_MS ago
     5.0 s  a check: one notice names the fourth partition, and whatever has changed meanwhile

Apache Kafka waits for five seconds without a change before each notice, and clients, health checks and rolling restarts
wait with it. Kafka: kafka.server.ZkAlterPartitionManager, kafka.utils.ReplicationUtils.
"""

from __future__ import annotations

import logging
import threading

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.replica.isr.isr_updates import IsrChange
from barnabas.runtime.clock import NANOSECONDS_PER_MILLISECOND, Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import NoNodeError, StoreError
from barnabas.zk.znodes.topic_zk_data import LeaderIsrAndControllerEpoch

logger = logging.getLogger(__name__)

# Each notice makes the controller read its partitions anew, so that changes are collected for this time after a notice.
NOTICE_INTERVAL_MS = 5000
CHECK_INTERVAL_MS = 2500
RETRY_MS = 1000


class ZkAlterPartitionManager:
    """A manager that writes partition states to the store, and later sends the controller one notice for many."""

    def __init__(self, zk_client: KafkaZkClient, scheduler: Scheduler, clock: Clock) -> None:
        self._zk = zk_client
        self._scheduler = scheduler
        self._clock = clock
        self._lock = threading.Lock()
        self._submitted: list[IsrChange] = []
        self._changed: set[TopicPartition] = set()
        self._last_notice_ms = self._now_ms() - NOTICE_INTERVAL_MS

    def start(self) -> None:
        """Begin to send notices."""
        self._scheduler.schedule(
            "isr-change-propagation", self.maybe_propagate, delay_ms=CHECK_INTERVAL_MS, period_ms=CHECK_INTERVAL_MS
        )

    def shutdown(self) -> None:
        """Do nothing: the scheduler, which writes, is stopped as well."""

    def submit(self, change: IsrChange) -> None:
        """Queue the change for the scheduler's thread."""
        with self._lock:
            self._submitted.append(change)
            # Only the first change of a batch schedules a write, which takes everything that is queued by then.
            is_first = len(self._submitted) == 1
        if is_first:
            self._scheduler.schedule("alter-isr", self._write)

    def maybe_propagate(self) -> None:
        """Send a notice of what has changed, unless the last one was a moment ago."""
        now_ms = self._now_ms()
        with self._lock:
            if not self._changed or now_ms - self._last_notice_ms < NOTICE_INTERVAL_MS:
                return
            changed, self._changed = self._changed, set()
        try:
            self._zk.propagate_isr_changes(changed)
        except StoreError as error:
            logger.warning("Sending changed in-sync replicas to the controller failed, retrying: %s", error)
            with self._lock:
                self._changed |= changed
        else:
            with self._lock:
                self._last_notice_ms = now_ms

    def _now_ms(self) -> int:
        return self._clock.nanoseconds() // NANOSECONDS_PER_MILLISECOND

    def _write(self) -> None:
        with self._lock:
            submitted, self._submitted = self._submitted, []
        # A retry and a first change may both have scheduled a write; the earlier write took everything.
        if not submitted:
            return
        states = {one.partition: LeaderIsrAndControllerEpoch(one.wanted, one.controller_epoch) for one in submitted}
        try:
            outcomes = self._zk.topics.update_partition_states(states)
        except StoreError as error:
            logger.warning("Writing in-sync replicas of %d partitions failed, retrying: %s", len(states), error)
            self._retry(submitted)
            return
        with self._lock:
            self._changed.update(key for key, outcome in outcomes.items() if isinstance(outcome, int))
        # Without the lock: an outcome may submit the next change.
        for one in submitted:
            outcome = outcomes[one.partition]
            try:
                one.on_done(
                    one.wanted.with_partition_epoch(outcome)
                    if isinstance(outcome, int)
                    else self._refusal(one, outcome)
                )
            except Exception:
                logger.exception("Applying the stored in-sync replicas of %s failed", one.partition)
        self.maybe_propagate()

    def _retry(self, submitted: list[IsrChange]) -> None:
        """Queue changes again that could not be written. The version of the znode fences a change that is too late."""
        with self._lock:
            # In front of newer changes: of two changes of one partition the last in the list is written.
            self._submitted = submitted + self._submitted
        self._scheduler.schedule("alter-isr", self._write, delay_ms=RETRY_MS)

    @staticmethod
    def _refusal(one: IsrChange, outcome: StoreError | None) -> ApiError:
        if isinstance(outcome, NoNodeError):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(outcome))
        text = (
            f"ISR update {one.wanted} for partition {one.partition} with controller epoch {one.controller_epoch} "
            "failed with an invalid version error"
        )
        return ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)
