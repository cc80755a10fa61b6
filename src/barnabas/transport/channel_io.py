"""Which channels of a Selector can be read and written now, and the reading and writing itself.

Owned by the Selector's thread; no lock. Called by the Selector in every poll, and by the Processor, which writes an
answer as soon as it has one, and reads on when nothing mutes the connection.
Kafka: Selector (attemptRead, attemptWrite, keysWithBufferedRead).

Readiness is edge-triggered: the Poller says once that a channel has something to read, and says it again only after a
receive that found the socket empty. In between, the channel's marks remember it. They are written here (and, for speed,
by the Selector's loop over events):

- `readable`: the kernel may hold bytes. Set by an event, cleared by a receive that drained the socket.
- `in_ready_list`: the channel is in `ready`, so it is not added twice. A channel leaves the list only in `read_ready`,
  also when it was muted meanwhile; muting therefore costs one assignment.
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

from barnabas.transport.channel_state import ChannelState
from barnabas.transport.frame_reader import InvalidReceive
from barnabas.transport.kafka_channel import KafkaChannel
from barnabas.transport.open_channels import OpenChannels
from barnabas.transport.poll_results import PollResults
from barnabas.transport.poller import READABLE, WRITABLE, Poller

logger = logging.getLogger(__name__)


class ChannelIO:
    """Moves the bytes of ready channels."""

    __slots__ = ("_channels", "_now", "_rearm", "_results", "ready", "to_write")

    def __init__(self, channels: OpenChannels, results: PollResults, poller: Poller, now: Callable[[], int]) -> None:
        """`now`: nanoseconds."""
        self._channels = channels
        self._results = results
        self._now = now
        self._rearm = poller.rearm if poller.needs_rearm else None
        self.ready: list[KafkaChannel] = []
        """Channels with something to read, unless they were muted or closed meanwhile."""
        self.to_write: list[KafkaChannel] = []
        """Channels with something to send, and room for it as far as is known."""

    # -- reading -----------------------------------------------------------------------------------------------------

    def read_soon(self, channel: KafkaChannel) -> None:
        """Let the next `read_ready` read the channel."""
        if not channel.in_ready_list:
            channel.in_ready_list = True
            self.ready.append(channel)

    def unmute(self, channel: KafkaChannel) -> None:
        """Read again, starting with what is buffered."""
        channel.muted = False
        if (channel.readable or channel.reader.buffered) and not channel.in_ready_list and not channel.closed:
            self.read_soon(channel)

    def read_ready(self, now_ns: int) -> list[KafkaChannel]:
        """Receive once from every channel in `ready`. Returns those with a whole frame: one frame each, at most."""
        still_ready = []
        completed = []
        for channel in self.ready:
            if channel.muted or not channel.ready:  # muted or closed since it joined the list
                channel.in_ready_list = False
                continue
            if channel.receive is not None:
                still_ready.append(channel)  # its frame of an earlier turn has not been taken yet
                continue
            try:
                frame = channel.read()
            except OSError as error:
                self._channels.fail(channel, channel.state, error)
                continue
            except InvalidReceive as error:
                self.close_invalid(channel, error)
                continue
            channel.last_active_ns = now_ns
            reader = channel.reader
            if channel.memory is not None:
                channel.memory.update()
            if frame is not None:
                channel.receive = frame
                completed.append(channel)
            elif reader.waiting:
                channel.in_ready_list = False  # until there is memory for its frame
                continue
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
        """Go on after the authenticator has read frames: the Poller does not repeat what came behind them."""
        reader = channel.reader
        channel.readable = not reader.drained
        if channel.ready and (channel.readable or reader.buffered):
            self.read_soon(channel)
        elif self._rearm is not None:
            self._rearm(channel.fd, READABLE)

    def take_readable(self, channel: KafkaChannel, *, is_broken: bool) -> None:
        """Note an event that says "readable". is_broken: it also says that the connection is gone both ways."""
        channel.readable = True
        if not channel.muted:
            self.read_soon(channel)
        elif is_broken and not channel.reader.buffered and not channel.transport.has_unread():
            # The client went while its request is being handled, and left no other: nothing can be answered any more.
            self._channels.fail(channel, channel.state)

    def close_invalid(self, channel: KafkaChannel, error: InvalidReceive) -> None:
        """Close a channel whose peer sent a length that no frame can have."""
        logger.warning("Closing connection %s: %s", channel.connection_id, error)
        self._channels.fail(channel, channel.state)

    def _close_finished(self, channel: KafkaChannel) -> None:
        """Close a channel whose peer sends nothing more; it may still read, so an answer on its way goes on."""
        if channel.outgoing.unsent:
            self._channels.begin_closing(channel)
        else:
            self._channels.fail(channel, channel.state)

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self, channel: KafkaChannel) -> bool:
        """Send now what `channel.outgoing` holds. True once nothing is left; otherwise the next polls go on with it.

        A channel whose connection is gone is closed, and the next poll reports it.
        """
        if not channel.outgoing.writable:
            return False
        try:
            if channel.write():
                return True
        except OSError as error:
            self._channels.fail(channel, ChannelState.FAILED_SEND, error)
            return False
        self._go_on_writing(channel)
        return False

    def _go_on_writing(self, channel: KafkaChannel) -> None:
        """Arrange for what a write has left over."""
        if channel.outgoing.writable:
            self.write_later(channel)  # a long file: its next piece after the turn of the others
        elif self._rearm is not None:
            self._rearm(channel.fd, WRITABLE)

    def write_later(self, channel: KafkaChannel) -> None:
        """Let the next poll send what the channel holds, if there is room in its socket."""
        if channel.outgoing.writable and not channel.in_write_list:
            channel.in_write_list = True
            self.to_write.append(channel)

    def write_waiting(self) -> bool:
        """Send what the channels in `to_write` hold. False if there is nothing to report, nor more to write now."""
        waiting, self.to_write = self.to_write, []
        now_ns = self._now()
        for channel in waiting:
            channel.in_write_list = False
            if channel.closed or not channel.outgoing.unsent:
                continue
            channel.last_active_ns = now_ns
            if self.write(channel):
                self._results.completed_sends.append(channel)
                if self._channels.is_closing(channel):
                    self._channels.fail(channel, channel.state)
            if channel.memory is not None:
                channel.memory.update()
        return bool(self.to_write or self._results.completed_sends)

    def take_writable(self, channel: KafkaChannel) -> None:
        """Note an event that says "writable", and go on with what could not be sent before."""
        if channel.became_writable() and channel.outgoing.unsent:
            self.write_later(channel)
            self.write_waiting()

    def close_when_sent(self, channel: KafkaChannel) -> None:
        """Read nothing more, and close once the answers handed over have left. A poll reports it."""
        if channel.closed:
            return
        channel.mute()
        if not channel.outgoing.unsent or self.write(channel):
            self._channels.fail(channel, channel.state)
        elif channel.connection_id in self._channels.by_id:  # the write has not lost it
            self._channels.begin_closing(channel)
