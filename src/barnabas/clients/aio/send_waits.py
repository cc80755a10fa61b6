"""What tasks wait for before an asyncio producer takes their records: metadata, memory, and each other's turns.

Made by the asyncio producer, owned by its event loop; no lock. Other threads only give signals (`LoopSignal`).
Kafka: KafkaProducer.waitOnMetadata, BufferPool.allocate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.clients.errors import ClientClosed, ClientTimeout
from barnabas.clients.producer.producer_topics import KnownTopic, Wait
from barnabas.clients.producer.record_appender import SendConditions

# An error that ends the wait for metadata comes without an update, so without a signal: this is how soon it is seen.
_LOOK_AGAIN_SECONDS = 0.1

_RECORDS_BETWEEN_PAUSES = 128
_LONGEST_DELAY_TURNS = 8
_MOST_DELAYED_BYTES = 1 << 18


class LoopSignal:
    """A signal that any thread gives to the tasks of one loop: something that they wait for has changed.

    A task that checks its condition and waits then, misses no signal. No lock: the future is the loop's alone.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next: asyncio.Future[None] = loop.create_future()

    def give(self) -> None:
        """Wake all tasks that wait. Any thread may call it, and does not wait."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # The loop was closed: no task is waiting.
            return

    async def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait for the next signal, or for that long."""
        # `asyncio.wait` does not cancel the future, which other tasks wait for too.
        await asyncio.wait([self._next], timeout=timeout_seconds)

    def _wake(self) -> None:
        given, self._next = self._next, self._loop.create_future()
        given.set_result(None)


class SendWaits:
    """The waits of one producer, each for at most `max_block_ms` in all.

    Tasks that wait for memory stand in line: the first one watches the pool, the others wait for its turn to end. The
    check before a record is queued is exact, because the tasks of one loop are alone in taking memory from the pool.
    """

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


class SendingTurns:
    """The turns of one producer's loop: when a task lets others run, and when the sending thread is woken.

    A task whose sends never wait would keep the loop to itself, so it pauses after some records. The sending thread is
    woken in the loop's next turn, because records that are sent in one turn leave together. A task that only pauses
    goes on sending in that turn. The thread is woken some turns later then, when more records have come into the
    batches that were begun: each wake-up costs a request for every leader and switches between two threads, whatever
    the number of records.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._records = 0
        """Since the last pause."""
        self._bytes = 0
        """Since the last wake-up."""
        self._pausing = 0
        self._is_waking = False
        self._delay_turns = 0

    @property
    def is_pause_due(self) -> bool:
        """Whether the next task that sends lets the others run first."""
        return self._records >= _RECORDS_BETWEEN_PAUSES

    async def pause(self) -> None:
        """Let the other tasks run once, the one that takes the results among them."""
        self._records = 0
        self._pausing += 1
        try:
            await asyncio.sleep(0)
        finally:
            self._pausing -= 1

    def note_record(self, record_bytes: int) -> None:
        """Count a record that is about to be queued."""
        self._records += 1
        self._bytes += record_bytes

    def wake_soon(self, wakeup: Callable[[], None]) -> None:
        """Call `wakeup` in one of the loop's next turns."""
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon(self._wake, wakeup)

    def _wake(self, wakeup: Callable[[], None]) -> None:
        if self._pausing and self._bytes < _MOST_DELAYED_BYTES and self._delay_turns < _LONGEST_DELAY_TURNS:
            self._delay_turns += 1
            self._loop.call_soon(self._wake, wakeup)
            return
        self._is_waking = False
        self._bytes = self._delay_turns = 0
        wakeup()
