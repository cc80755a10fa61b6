"""The waits of an asyncio producer before a record may be queued: for the topic's metadata, and for memory.

Owned by the event loop of its producer; the sending thread gives signals (`loop_signal`). Kafka:
KafkaProducer.waitOnMetadata, BufferPool.allocate.

Tasks that wait for memory stand in line: the first one watches the pool, the others wait for its turn to end. The check
before a record is queued is exact, because the tasks of one loop are alone in taking memory from the pool.
"""

from __future__ import annotations

import asyncio

from barnabas.clients.aio.loop_signal import LoopSignal
from barnabas.clients.errors import ClientClosed, ClientTimeout
from barnabas.clients.producer.producer_topics import KnownTopic
from barnabas.clients.producer.send_conditions import SendConditions
from barnabas.clients.producer.wait_times import Wait

# An error that ends the wait for metadata comes without an update, so without a signal: this is how soon it is seen.
_LOOK_AGAIN_SECONDS = 0.1


class SendWaits:
    """The waits of one producer, each for at most `max_block_ms` in all."""

    def __init__(self, conditions: SendConditions, loop: asyncio.AbstractEventLoop, max_block_ms: int) -> None:
        self.conditions = conditions
        self._max_block_ms = max_block_ms
        self._metadata_signal = LoopSignal(loop)
        self._memory_signal = LoopSignal(loop)
        self._memory_line = asyncio.Lock()
        self._is_closed = False
        conditions.watch_metadata(self._metadata_signal.give)

    def close(self) -> None:
        """End all waits with ClientClosed."""
        self._is_closed = True
        self._metadata_signal.give()
        self._memory_signal.give()

    def topic_at_once(self, topic: str, partition: int | None, record_bytes: int) -> KnownTopic | None:
        """Return the topic if a record of this size may surely be queued at once; None if `wait` has to look closer."""
        known = self.conditions.topics.fresh(topic, partition)
        if known is None or self._memory_line.locked() or not self.conditions.has_memory(record_bytes):
            return None
        return known

    def _are_needless(self, topic: str, partition: int | None, record_bytes: int) -> bool:
        return (
            self.conditions.topics.has(topic, partition)
            and self.conditions.has_memory(record_bytes)
            and not self._memory_line.locked()
        )

    async def wait(self, topic: str, partition: int | None, record_bytes: int) -> KnownTopic:
        """Wait until a record of this size may be queued, for as long as the caller does not await anything else.

        Raises ClientTimeout (Unreachable if no broker was ever reached, BufferExhausted for memory), ApiError for a
        topic that cannot be described, ClientClosed.
        """
        is_known = False
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                # In turns: the topic may have been dropped from the metadata during the wait for memory.
                while not self._are_needless(topic, partition, record_bytes):
                    is_known = False
                    await self._topic(topic, partition)
                    is_known = True
                    await self._memory(record_bytes)
        except ClientTimeout:
            raise
        except TimeoutError:
            if is_known:
                raise self.conditions.exhausted(record_bytes, self._max_block_ms) from None
            raise self.conditions.topics.missing(topic, partition, self._max_block_ms) from None
        return self.conditions.topics.wait(topic, partition)

    async def wait_for_topic(self, topic: str) -> None:
        """Wait until the topic is known. Raises ClientTimeout (or Unreachable), ApiError, ClientClosed."""
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                await self._topic(topic, None)
        except ClientTimeout:
            raise
        except TimeoutError:
            raise self.conditions.topics.missing(topic, None, self._max_block_ms) from None

    async def _topic(self, topic: str, partition: int | None) -> None:
        topics = self.conditions.topics
        if topics.has(topic, partition):
            return
        with topics.waits.measured(Wait.METADATA):
            while not topics.has(topic, partition):
                version = topics.request(topic)
                while not topics.is_updated(topic, version):
                    await self._metadata_signal.wait(_LOOK_AGAIN_SECONDS)
                    self._check_open()

    async def _memory(self, record_bytes: int) -> None:
        async with self._memory_line:
            if self.conditions.has_memory(record_bytes):
                return
            with self.conditions.watch_memory(self._memory_signal.give):
                self.conditions.wake_sender()
                while not self.conditions.has_memory(record_bytes):
                    self._check_open()
                    await self._memory_signal.wait()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("Producer closed while a record waited")
