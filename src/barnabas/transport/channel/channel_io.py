"""The reading and writing of a Selector's channels, and the lists of those that can be read or written now.

Owned by the Selector's thread; no lock. Called by the Selector in every poll, and by the Processor, which writes an
answer as soon as it has one, and unmutes connections.
Kafka: Selector (attemptRead, attemptWrite, keysWithBufferedRead).

Readiness is edge-triggered: the Poller reports once that a channel has something to read, and reports it again only
after a receive that found the socket empty. In between, marks of the channel remember the report. They are written here
(and, for speed, by the Selector's loop over events):

- `readable`: the kernel may hold bytes. Set by an event, cleared by a receive that drained the socket.
- `in_ready_list`: the channel is in `ready`, so it is not added twice. Only `read_ready` takes a channel off the list,
  also a channel that has been muted since; muting therefore costs one assignment.
- `in_write_list`: the same for `to_write`, the channels whose bytes are to be sent by the next poll.

Example: a client pipelines two requests in one segment, and its connection is muted while one is being handled.

    event           readable, in `ready`
    read_ready      one recv takes both requests and drains the socket: not readable, not in `ready`; the first request
                    is `receive`, the second stays in `reader.buffered`
    mute            nothing else to do
    unmute          the socket is empty, but `reader.buffered` is not: into `ready` again
    read_ready      no recv is needed: the second request is cut out of what was buffered
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.transport.channel.authenticator import AuthenticationFailed
from barnabas.transport.channel.frame_reader import InvalidReceive
from barnabas.transport.channel.kafka_channel import ChannelState, KafkaChannel
from barnabas.transport.channel.open_channels import OpenChannels, PollResults
from barnabas.transport.poller import READABLE, WRITABLE, Poller

if TYPE_CHECKING:
    from mypy_extensions import i64

logger = logging.getLogger(__name__)


class ChannelIO:
    """The receiver and sender of the bytes of ready channels."""

    __slots__ = ("_channels", "_now", "_rearm", "_results", "ready", "refusals", "to_write")

    def __init__(self, channels: OpenChannels, results: PollResults, poller: Poller, now: Callable[[], int]) -> None:
        """`now`: nanoseconds."""
        self._channels = channels
        self._results = results
        self._now = now
        self._rearm = poller.rearm if poller.needs_rearm else None
        self.ready: list[KafkaChannel] = []
        """Channels with something to read, unless they have been muted or closed since."""
        self.to_write: list[KafkaChannel] = []
        """Channels with something to send, and room for it as far as is known."""
        self.refusals: dict[str, AuthenticationFailed] = {}
        """Why servers refused this side when its handshake was over, by connection id: until the Selector is asked."""

    # -- reading

    def read_soon(self, channel: KafkaChannel) -> None:
        """Let the next `read_ready` read the channel."""
        if not channel.in_ready_list:
            channel.in_ready_list = True
            self.ready.append(channel)

    def unmute(self, channel: KafkaChannel) -> None:
        """Read a muted channel again, starting with the bytes that are buffered."""
        channel.muted = False
        if (channel.readable or channel.reader.buffered) and not channel.in_ready_list and not channel.closed:
            self.read_soon(channel)

    def read_ready(self, now_ns: i64) -> list[KafkaChannel]:
        """Receive once from every channel in `ready`.

        Returns the channels with a whole frame, which is in `receive`.
        """
        # One receive and one frame for each channel: a client that never stops sending cannot starve the others.
        still_ready: list[KafkaChannel] = []
        completed: list[KafkaChannel] = []
        for channel in self.ready:
            if channel.muted or not channel.ready:  # muted or closed since it joined the list
                channel.in_ready_list = False
                continue
            if channel.receive is not None:
                still_ready.append(channel)  # its frame of an earlier turn has not been taken yet
                continue
            reader = channel.reader
            try:
                frame = reader.read() if channel.network_ns < 0 else channel.timed_read(self._now)
            except OSError as error:
                self._channels.fail(channel, channel.state, error)
                continue
            except AuthenticationFailed as error:
                self._fail_refused(channel, error)
                continue
            except InvalidReceive as error:
                self.close_invalid(channel, error)
                continue
            channel.last_active_ns = now_ns
            if channel.memory is not None:
                channel.memory.update()
            if frame is not None:
                channel.receive = frame
                completed.append(channel)
            elif reader.waiting:
                channel.in_ready_list = False  # until there is memory for its frame
                continue
            # After a hangup no further edge comes: such a channel is read until the stream itself ends, however little
            # a receive brings.
            if reader.drained and not channel.hangup and not reader.ended:
                channel.readable = channel.in_ready_list = False
                if self._rearm is not None:
                    self._rearm(channel.fd, READABLE)
            elif reader.ended and frame is None:
                channel.in_ready_list = False
                self._close_finished(channel)
            elif channel.readable:
                still_ready.append(channel)
            else:  # a buffered frame, and no event since the last receive drained the socket
                channel.in_ready_list = False
        self.ready = still_ready
        return completed

    def expect_more(self, channel: KafkaChannel) -> None:
        """Go on after handshake or authenticator have received bytes: the Poller does not report those behind again."""
        reader = channel.reader
        channel.readable = not reader.drained
        if channel.ready and (channel.readable or reader.buffered):
            self.read_soon(channel)
        elif self._rearm is not None:
            self._rearm(channel.fd, READABLE)

    def take_readable(self, channel: KafkaChannel, *, is_broken: bool) -> None:
        """Note an event that says "readable". is_broken: the event also says that both directions are closed."""
        channel.readable = True
        if not channel.muted:
            self.read_soon(channel)
        elif is_broken and not channel.reader.buffered and not channel.transport.has_unread():
            # The client closed while its request was being handled, and sent no other: no answer can reach it. Without
            # this its request would keep the connection until the answer fails.
            self._channels.fail(channel, channel.state)

    def close_invalid(self, channel: KafkaChannel, error: InvalidReceive) -> None:
        """Close a channel whose peer sent a length that no frame can have."""
        logger.warning("Closing connection %s: %s", channel.connection_id, error)
        self._channels.fail(channel, channel.state)

    def _close_finished(self, channel: KafkaChannel) -> None:
        """Close a channel whose peer sends nothing more. The peer may still read, so an unsent answer leaves first."""
        if channel.outgoing.unsent:
            self._channels.begin_closing(channel)
        else:
            self._channels.fail(channel, channel.state)

    # -- writing

    def write(self, channel: KafkaChannel) -> bool:
        """Send the bytes in `channel.outgoing` now. Returns True once none is left; otherwise the next polls go on.

        A channel whose connection is gone is closed, and the next poll reports the channel.
        """
        outgoing = channel.outgoing
        if not outgoing.writable:
            return False
        try:
            if outgoing.write() if channel.network_ns < 0 else channel.timed_write(self._now):
                return True
        except OSError as error:
            self._fail_send(channel, error)
            return False
        self._schedule_write(channel)
        return False

    def _fail_send(self, channel: KafkaChannel, error: OSError) -> None:
        """Close a channel whose connection is gone. A server that refuses this side has said so before it closed."""
        if channel.ready and not channel.reader.received:
            try:
                channel.reader.read()
            except AuthenticationFailed as refusal:
                self._fail_refused(channel, refusal)
                return
            except (OSError, InvalidReceive):
                pass  # it has said nothing
        self._channels.fail(channel, ChannelState.FAILED_SEND, error)

    def _fail_refused(self, channel: KafkaChannel, refusal: AuthenticationFailed) -> None:
        self.refusals[channel.connection_id] = refusal
        self._channels.fail(channel, ChannelState.AUTHENTICATION_FAILED, refusal)

    def _schedule_write(self, channel: KafkaChannel) -> None:
        """Arrange for the next write of a channel whose last one left bytes over."""
        if channel.outgoing.writable:
            self.write_later(channel)  # a long file: its next piece follows after the other channels
        elif self._rearm is not None:
            self._rearm(channel.fd, WRITABLE)

    def write_later(self, channel: KafkaChannel) -> None:
        """Let the next poll send the channel's bytes, if there is room in its socket."""
        if channel.outgoing.writable and not channel.in_write_list:
            channel.in_write_list = True
            self.to_write.append(channel)

    def write_waiting(self) -> bool:
        """Send the bytes of the channels in `to_write`.

        Returns whether there is something to report or to write now.
        """
        # The list is replaced first, because a write of a long file puts its channel into the new one.
        waiting, self.to_write = self.to_write, []
        now_ns = self._now()
        for channel in waiting:
            channel.in_write_list = False
            if channel.closed or not channel.outgoing.unsent:
                continue
            channel.last_active_ns = now_ns
            if self.write(channel):
                self._results.completed_sends.append(channel)
                self._results.has_any = True
                if self._channels.is_closing(channel):
                    self._channels.fail(channel, channel.state)
            if channel.memory is not None:
                channel.memory.update()
        return bool(self.to_write or self._results.completed_sends)

    def take_writable(self, channel: KafkaChannel) -> None:
        """Note an event that says "writable", and send the bytes that had no room before."""
        if channel.became_writable() and channel.outgoing.unsent:
            self.write_later(channel)
            self.write_waiting()

    def close_when_sent(self, channel: KafkaChannel) -> None:
        """Stop reading, and close once the answers in `channel.outgoing` have left. A poll reports the close."""
        if channel.closed:
            return
        channel.mute()
        if not channel.outgoing.unsent or self.write(channel):
            self._channels.fail(channel, channel.state)
        elif channel.connection_id in self._channels.by_id:  # otherwise the write has failed and closed the channel
            self._channels.begin_closing(channel)
