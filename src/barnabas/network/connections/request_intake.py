"""The intake of one Processor: it parses frames, and runs their requests at once or queues them for a handler thread.

Made and used by one Processor, on its thread; no lock. `RequestTurn` decides what runs at once. Two kinds of work wait
here, for different reasons: a channel is *postponed* when its turn was used up (its frame is parsed in the next turn),
a request is *staged* when the RequestChannel was full (a handler thread that makes room wakes the Processor).

Kafka: SocketServer.Processor (processCompletedReceives), which blocks on a full queue, and runs nothing at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from barnabas.api.request import Request
from barnabas.network.connections.connection import Connection
from barnabas.network.connections.mute_states import NOT_MUTED, RESPONSE_PENDING
from barnabas.network.requests.request_channel import RequestPath
from barnabas.transport.channel.frame_reader import Frame
from barnabas.transport.channel.kafka_channel import KafkaChannel
from barnabas.transport.selector import Selector

if TYPE_CHECKING:
    from mypy_extensions import i64

TURN_NS: Final = 1_000_000
"""The time that one turn of the loop may spend on requests that run at once."""
SLOW_REQUEST_NS: Final = 5_000_000
"""A single request that takes this long is waiting for something, and others must not wait behind it. A thread that the
kernel preempts for a time slice loses up to 4 ms, so a shorter time proves nothing."""


class RequestTurn:
    """The decision which requests of one turn of a Processor's loop run at once on its thread.

    Pure: the time is passed in. Why, and the measurements behind TURN_NS and SLOW_REQUEST_NS:
    docs/decisions/0013-what-runs-at-once.md.

    A turn begins `at_once`: brief requests run on the network thread. Its time is `TURN_NS`. A later request either
    waits for the next turn or, behind a request that was slow by itself, goes to the handler threads:

        time  0 ms    turn.begin
              0.6     A and B have run, 0.3 ms each
              1.1     C has run; D arrives behind it. 1.1 > 1 ms, and C took 0.5 ms: the turn was used up by many brief
                      requests. `is_used_up` returns True: D waits, new answers and ready sockets come first.
        or    9       C took 8.4 ms: so long it was not working but waiting. `at_once` ends: D and all that follow
                      in this turn are queued for handler threads, so that none of them waits behind another one like C.
    """

    __slots__ = ("_may_run_at_once", "at_once", "began_ns", "ends_ns")

    def __init__(self, *, may_run_at_once: bool) -> None:
        """may_run_at_once: `inline.requests.enable`, and the plane allows it. Otherwise every request is queued."""
        self._may_run_at_once = may_run_at_once
        self.at_once = may_run_at_once
        """Whether a brief request runs on the network thread."""
        self.began_ns: i64 = 0
        """When the turn began, until its first request is taken, which came then; 0 afterwards."""
        self.ends_ns: i64 = 0
        """The end of the turn's time. Before it `is_used_up` need not be called, so a request costs one comparison."""

    def begin(self, now_ns: i64) -> None:
        """Begin a turn of the Processor, whose time runs from `now_ns` on."""
        self.began_ns = now_ns
        self.ends_ns = now_ns + TURN_NS
        self.at_once = self._may_run_at_once

    def is_used_up(self, now_ns: i64, last_began_ns: i64) -> bool:
        """Return whether a frame that is taken now, after `ends_ns`, has to wait for the next turn.

        last_began_ns: the time at which the previous request began. If that request alone was slow, the turn goes on,
        and the rest of its requests are queued.
        """
        if self.at_once or not self._may_run_at_once:
            # A request of an earlier turn says nothing about this one.
            turn_began_ns = self.ends_ns - TURN_NS
            if now_ns - max(last_began_ns, turn_began_ns) < SLOW_REQUEST_NS:
                return True
            self.at_once = False
        return False


class RequestIntake:
    """The parser and distributor of the frames that one Processor receives."""

    __slots__ = (
        "_apis",
        "_is_first_served",
        "_last_began_ns",
        "_now",
        "_parser",
        "_path",
        "_processor_id",
        "_waiting_requests",
        "_wake",
        "postponed",
        "staged",
        "turn",
    )

    def __init__(
        self,
        processor_id: int,
        path: RequestPath,
        now: Callable[[], int],
        selector: Selector,
    ) -> None:
        """`now`: nanoseconds. selector: the Processor's; handler threads interrupt its poll."""
        self._processor_id: i64 = processor_id
        self._path = path
        # As they are needed for every request.
        self._parser = path.parser
        self._apis = path.apis
        self._waiting_requests = path.channel.waiting_requests
        self._now = now
        self._wake = selector.wakeup
        self._last_began_ns: i64 = 0  # when the last request began
        self.turn = RequestTurn(may_run_at_once=path.may_run_at_once)
        self.postponed: list[KafkaChannel] = []
        """Channels whose frame waits for the next turn."""
        self._is_first_served = False
        """Whether the first of them has had requests answered in the turn that it used up."""
        self.staged: deque[Request[Any]] = deque()
        """Requests for which the RequestChannel had no room yet."""

    def take_requests(self, channel: KafkaChannel, connection: Connection) -> None:
        """Take the completed frame of a channel, and the frames buffered behind it, until one is not answered at once.

        Raises InvalidRequest for a frame that is no request, InvalidReceive for an impossible length behind a frame.
        """
        reader = channel.reader
        turn = self.turn
        frame = channel.receive
        channel.receive = None
        is_served = False
        if frame is None and reader.buffered:
            frame = reader.next_frame()
        while frame is not None:
            received_ns: i64 = turn.began_ns
            if received_ns:
                turn.began_ns = 0
            else:
                received_ns = self._now()
            if received_ns > turn.ends_ns and turn.is_used_up(received_ns, self._last_began_ns):
                channel.receive = frame
                self.postponed.append(channel)
                if is_served:  # the first to be postponed in a turn: what comes behind it finds the turn used up
                    self._is_first_served = True
                return
            # The next request may find the turn used up, and then asks whether this one was slow.
            self._last_began_ns = received_ns
            # As `mute` and REQUEST_RECEIVED make of NOT_MUTED: only connections that are not muted are read.
            connection.muting = RESPONSE_PENDING
            if connection.session_ends_ns:
                self.look_at_session(frame, connection, received_ns)
            request = self._parser.parse(
                frame, connection.context, connection, received_ns, self._processor_id, reader.release
            )
            # Requests in the queue came earlier, so this one goes behind them.
            if not request.brief or not turn.at_once or self._waiting_requests:
                channel.mute()
                if channel.memory is not None and reader.release is None:
                    channel.memory.request_waits(request.request_size)
                self._queue(request)
                return
            self._apis.handle(request)
            if connection.muting != NOT_MUTED or connection.close_requested:
                # The request waits in a purgatory, or is throttled, or its client does not read its answers. Frames
                # behind it wait, which keeps the answers in order.
                channel.mute()
                return
            # Only frames of the last receive: another receive would starve the other connections.
            if not reader.buffered:
                return
            frame = reader.next_frame()
            is_served = True

    def look_at_session(self, frame: Frame, connection: Connection, received_ns: i64) -> None:
        """Do nothing: only a login by SASL has an end."""

    def take_postponed(self, arrived: list[KafkaChannel]) -> list[KafkaChannel]:
        """Return the channels of a new turn, in the order in which they are served: the `arrived` after the postponed.

        The channel whose many frames used the previous turn up comes last. In front again, it would use up this turn
        too, and a client that sends 10,000 brief requests at once would have them all answered before anybody else's.
        """
        postponed, self.postponed = self.postponed, []
        if self._is_first_served:
            self._is_first_served = False
            return [*postponed[1:], *arrived, postponed[0]]
        return postponed + arrived

    def postpone_complete(self, channels: Iterable[KafkaChannel]) -> None:
        """Have the next turn take every frame that is complete, after a turn that failed before it took them."""
        postponed = set(self.postponed)
        self.postponed += [
            channel
            for channel in channels
            if channel.receive is not None and channel.ready and channel not in postponed
        ]

    def queue_staged(self) -> None:
        """Queue staged requests, the oldest first, as far as there is room."""
        staged = self.staged
        while staged and self._path.channel.try_send(staged[0], self._wake):
            staged.popleft()

    def close(self) -> None:
        """Release the frames of staged requests, and take the Processor off its RequestChannel."""
        for request in self.staged:
            request.release_buffer()
        self._path.channel.remove_processor(self._processor_id)

    def _queue(self, request: Request[Any]) -> None:
        # Not past the staged requests: they are older.
        if self.staged or not self._path.channel.try_send(request, self._wake):
            self.staged.append(request)
