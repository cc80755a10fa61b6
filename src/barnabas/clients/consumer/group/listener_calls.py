"""Calls the user's rebalance listener. Its exceptions are returned, because the rebalance has to end first.

Owned by the consumer's thread, no lock held. Kafka: ConsumerRebalanceListenerInvoker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from barnabas.clients.consumer.group.coordinator_metrics import CoordinatorMetrics, ListenerCall
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.protocol.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class ListenerCalls:
    """The calls of one consumer's listener. Each method returns the listener's exception, or None."""

    def __init__(
        self, subscriptions: SubscriptionState, metrics: CoordinatorMetrics, now_ms: Callable[[], int]
    ) -> None:
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._now_ms = now_ms

    def assigned(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """Tell the listener which partitions are new. The listener is called even if there are none, as in Kafka."""
        ordered = sorted(partitions)
        logger.info("Adding newly assigned partitions: %s", ", ".join(map(str, ordered)))
        listener = self._subscriptions.listener
        return None if listener is None else self._call(ListenerCall.ASSIGNED, listener.on_partitions_assigned, ordered)

    def revoked(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """Tell the listener which partitions go to other members."""
        ordered = sorted(partitions)
        logger.info("Revoke previously assigned partitions %s", ", ".join(map(str, ordered)))
        listener = self._subscriptions.listener
        return None if listener is None else self._call(ListenerCall.REVOKED, listener.on_partitions_revoked, ordered)

    def lost(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """Tell the listener which partitions may have other owners already, if there are any."""
        ordered = sorted(partitions)
        listener = self._subscriptions.listener
        if not ordered:
            return None
        logger.info("Lost previously assigned partitions %s", ", ".join(map(str, ordered)))
        return None if listener is None else self._call(ListenerCall.LOST, listener.on_partitions_lost, ordered)

    def _call(
        self,
        call: ListenerCall,
        method: Callable[[Sequence[TopicPartition]], None],
        partitions: list[TopicPartition],
    ) -> Exception | None:
        began_ms = self._now_ms()
        try:
            method(partitions)
        except Exception as error:  # the user's error, raised again when the rebalance is in order
            logger.exception("User provided listener failed on %s", getattr(method, "__name__", method))
            return error
        now_ms = self._now_ms()
        self._metrics.listener_called(call, now_ms - began_ms, now_ms)
        return None
