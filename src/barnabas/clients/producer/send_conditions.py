"""What `Producer.send` may have to wait for, told without waiting: the metadata of a topic, and memory.

Made by `Producer.send_conditions` for the asyncio producer, whose event loop must not wait in `send`. Used on the event
loop; the watchers are called on the sending thread. The parts below have their own locks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from barnabas.clients.errors import BufferExhausted
from barnabas.clients.metadata.cluster_metadata import ClusterMetadata
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_topics import ProducerTopics
from barnabas.clients.producer.sending.sender import Sender
from barnabas.records.record_batch import HEADER_SIZE


class SendConditions:
    """The conditions under which `send` of one producer does not wait. `topics` tells of the metadata."""

    def __init__(
        self,
        config: ProducerConfig,
        metadata: ClusterMetadata,
        topics: ProducerTopics,
        pool: BufferPool,
        sender: Sender,
    ) -> None:
        self.topics = topics
        self._config = config
        self._metadata = metadata
        self._pool = pool
        self._sender = sender

    def has_memory(self, record_bytes: int) -> bool:
        """Return whether `send` finds memory for a record of this size, or would reject it at once.

        The answer holds until the next `send` if only the caller sends: the sending thread takes no memory.
        """
        wanted = self._wanted(record_bytes)
        return self._pool.available_bytes >= wanted or wanted > self._pool.total_bytes

    def watch_memory(self, on_change: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `on_change()` on the sending thread whenever memory is given back, until the block is left.

        All batches are sent at once meanwhile, full or not.
        """
        return self._pool.watch(on_change)

    def wake_sender(self) -> None:
        """Let the sending thread see that memory is wanted."""
        self._sender.wakeup()

    def exhausted(self, record_bytes: int, waited_ms: int) -> BufferExhausted:
        """Count a record that found no memory in time, and return its error."""
        return self._pool.exhausted(self._wanted(record_bytes), waited_ms)

    def watch_metadata(self, on_change: Callable[[], None]) -> None:
        """Call `on_change()` on the sending thread after each update of the metadata."""
        self._metadata.add_listener(lambda _cluster: on_change())

    def note_failure(self, topic: str) -> None:
        """Count a record that failed before `send` was called."""
        self._sender.metrics.records_failed(topic, 1)

    def _wanted(self, record_bytes: int) -> int:
        # As in RecordAccumulator.append: memory is taken for a full batch at once.
        return max(self._config.batch_size, HEADER_SIZE + record_bytes)
