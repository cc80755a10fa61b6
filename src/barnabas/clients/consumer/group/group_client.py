"""The parts that a consumer needs with either group protocol: its connection to the coordinator, its topics.

Made by `make_coordinator`, owned by the consumer's thread; only the channel is shared with its own thread.
"""

from __future__ import annotations

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_channel import CoordinatorChannel
from barnabas.clients.consumer.group.followed_topics import FollowedTopics
from barnabas.clients.consumer.group.listener_calls import ListenerCalls
from barnabas.clients.consumer.group.shared_nodes import SharedNodes
from barnabas.clients.consumer.subscription_state import SubscriptionState
from barnabas.clients.consumer.waiting import ConsumerWaiting
from barnabas.rpc.exponential_backoff import ExponentialBackoff


class GroupClient:
    """The parts of one consumer. `backoff` is that of retries, `channel` the connection to the coordinator."""

    def __init__(
        self,
        config: GroupRebalanceConfig,
        subscriptions: SubscriptionState,
        client: BlockingClient,
        waiting: ConsumerWaiting,
        *,
        exclude_internal_topics: bool = True,
    ) -> None:
        self.config = config
        self.subscriptions = subscriptions
        self.client = client
        self.waiting = waiting
        self.backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, client.random)
        self.channel = CoordinatorChannel(
            config, client.make_network(SharedNodes(client.metadata)), self.backoff, client.network.wakeup
        )
        self.topics = FollowedTopics(
            client, subscriptions, config.client_rack, exclude_internal=exclude_internal_topics
        )
        self.listener = ListenerCalls(subscriptions, self.channel.metrics, client.now_ms)

    def make_new_connections(self) -> None:
        """Connect the channel anew, in a forked child."""
        self.channel.forked(self.client.make_network(SharedNodes(self.client.metadata)))
