"""The consumer's side of its group, in what the classic and the consumer protocol have in common.

Owned by the consumer's thread; its methods are what `Consumer` calls. Its two subclasses differ in how partitions are
divided: `ConsumerCoordinator` for groups in which a member divides them, `ReconcilingCoordinator` for those in which
the coordinator does (KIP-848); `make_coordinator` chooses. What the consumer's thread shares with the channel's thread
is guarded by `channel.lock`, held for moments. Kafka: AbstractCoordinator, AbstractMembershipManager.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from barnabas.clients.consumer.group.committing_member import CommittingMember
from barnabas.clients.consumer.group.coordinator_channel import ChannelUser
from barnabas.clients.consumer.group.group_client import GroupClient
from barnabas.clients.consumer.group.offset_commits import OffsetCalls, OffsetCommits
from barnabas.clients.consumer.group.offsets import GroupOffsets
from barnabas.clients.errors import ClientClosed
from barnabas.clients.values import ConsumerGroupMetadata


class MemberCoordinator(ABC):
    """The group as `Consumer` uses it. `offsets` commits offsets and reads committed ones.

    membership: as which commits are sent. session: what the channel's thread runs between the user's polls.
    """

    def __init__(self, group: GroupClient, membership: CommittingMember, session: ChannelUser) -> None:
        self._group = group
        self._config = group.config
        self._subscriptions = group.subscriptions
        self._topics = group.topics
        self._listener = group.listener
        self._session = session
        self.channel = group.channel
        commits = OffsetCommits(group.config, group.channel, membership)
        calls = OffsetCalls(commits, group.channel, session, group.client, group.waiting)
        self.offsets = GroupOffsets(calls, group.subscriptions)

    def measure(self, now_ms: int) -> Iterator[tuple[str, float]]:
        """Yield the name and the value of each metric of the group."""
        with self.channel.lock:
            yield from list(self.channel.metrics.measure(now_ms, len(self._subscriptions.partitions)))

    @property
    @abstractmethod
    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group."""

    @abstractmethod
    def check_subscription(self, *, by_server_pattern: bool) -> None:
        """Check that the consumer may subscribe in this way. Raises RuntimeError if the protocol does not allow it."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Join again in the next poll, if the protocol lets a member do so."""

    def forked(self) -> None:
        """Make new connections, in a forked child. Raises ClientClosed when the parent is a member."""
        if self.channel.has_started:
            raise ClientClosed("A forked process is no member of its parent's group: make a consumer of its own")
        self._group.make_new_connections()

    # -- polling

    def subscription_changed(self) -> None:
        """Follow the topics of a new subscription, or of partitions that the user assigned."""
        self._topics.follow()

    def poll(self, now_ms: int) -> None:
        """Do what the group asks for now.

        Raises what the listener, an assignor or a callback raises, and ApiError when the coordinator refuses the
        member for a reason that no retry cures (GROUP_AUTHORIZATION_FAILED, FENCED_INSTANCE_ID).
        """
        self._topics.refresh()
        self.offsets.run_callbacks()
        if self._subscriptions.is_auto_assigned:
            self.channel.start(self._session)
            self._advance(now_ms)
        self.offsets.automatic.poll(now_ms)

    @abstractmethod
    def _advance(self, now_ms: int) -> None:
        """Take the membership as far as it can go now. Raises what `poll` raises."""

    def next_poll_ms(self, now_ms: int) -> int:
        """Return the milliseconds until `poll` has work again, answers of the coordinator aside."""
        return self.offsets.next_poll_ms(now_ms)

    # -- leaving

    @abstractmethod
    def leave(self, reason: str) -> None:
        """Revoke all partitions and tell the coordinator. Raises what the listener raised."""

    def close(self, timeout_ms: int, *, leave_group: bool, commit: bool) -> None:
        """Commit if that is automatic, await all commits, and leave; take at most `timeout_ms` for all of it.

        Without `commit`, there is no automatic commit, and only those under way are awaited. Raises what the listener
        and the callbacks raise, when the channel is closed.
        """
        deadline_ms = self._group.client.now_ms() + timeout_ms
        try:
            if commit:
                if self.offsets.automatic.is_due_at_close:
                    self._prepare_last_commit(deadline_ms)
                self.offsets.automatic.commit_at_close(deadline_ms)
            self.offsets.automatic.await_commits(deadline_ms)
            if leave_group or self._leaves_for_a_while:
                self.leave("the consumer is being closed")
        finally:
            self.channel.close(max(deadline_ms - self._group.client.now_ms(), 0))
            self.offsets.run_callbacks()

    @abstractmethod
    def _prepare_last_commit(self, deadline_ms: int) -> None:
        """Wait until the member may commit."""

    @property
    def _leaves_for_a_while(self) -> bool:
        """Whether the coordinator hears of a member that closes and stays in its group."""
        return False
