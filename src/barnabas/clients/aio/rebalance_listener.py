"""The user's callbacks for changes of an asyncio consumer's partitions: functions or coroutines.

Called on the event loop, while `getone` or `getmany` polls, or in `unsubscribe` and `stop`. The rebalance waits for the
coroutine, which may await the consumer's calls: `commit`, `seek`, `position` and others, but not `getone` or `getmany`.
Kafka: ConsumerRebalanceListener.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from barnabas.clients.aio.call_thread import CallThread
from barnabas.clients.consumer import subscription_state as core
from barnabas.protocol.topic_partition import TopicPartition


class AsyncRebalanceListener:
    """The base of listeners, which override the methods of interest, with `def` or `async def`.

    Each call gets sorted partitions. The calls mean what those of the synchronous consumer's listener mean.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Take note of new partitions, and seek in them if needed. Called after every rebalance, even with none."""
        return None

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Commit the offsets of partitions that go to other members: this is the last occasion."""
        return None

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Drop work on partitions that may have new owners already. By default they are handled like revoked ones."""
        return self.on_partitions_revoked(partitions)


AnyRebalanceListener: TypeAlias = AsyncRebalanceListener | core.RebalanceListener
"""A listener of either kind. One of the synchronous kind is called on the loop, too."""


class ListenerOnLoop(core.RebalanceListener):
    """The listener that the core calls on its thread: it runs the user's listener on the loop and waits for it.

    `tasks` has the loop's tasks that run a listener now.
    """

    def __init__(
        self, listener: AnyRebalanceListener, thread: CallThread, tasks: set[asyncio.Task[Any] | None]
    ) -> None:
        self._listener = listener
        self._thread = thread
        self._tasks = tasks

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Call the user's method."""
        self._call(self._listener.on_partitions_assigned, partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Call the user's method."""
        self._call(self._listener.on_partitions_revoked, partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Call the user's method."""
        self._call(self._listener.on_partitions_lost, partitions)

    def _call(
        self,
        method: Callable[[Sequence[TopicPartition]], Awaitable[None] | None],
        partitions: Sequence[TopicPartition],
    ) -> None:
        async def call() -> None:
            task = asyncio.current_task()
            self._tasks.add(task)
            try:
                result = method(partitions)
                if inspect.isawaitable(result):
                    await result
            finally:
                self._tasks.discard(task)

        self._thread.on_loop(call)
