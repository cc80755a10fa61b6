"""The Processor's loop, verb by verb, over connections in memory; behaviour is the same in both modes."""

from __future__ import annotations

import errno
import gc
import logging
import os
import struct
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.api.request import Request
from barnabas.network.connections.connection_table import NewConnection
from barnabas.network.connections.mute_states import MuteState
from barnabas.network.connections.request_intake import SLOW_REQUEST_NS
from barnabas.network.network_config import ListenerConfig, NetworkConfig
from barnabas.records.file_records import FileRecords
from barnabas.transport.channel.authenticator import Conversation
from barnabas.transport.channel.send import FILE_BYTES_PER_TURN
from tests.support.memory_network import framed
from tests.unit.network.network_harness import NetworkHarness


@pytest.fixture(params=[True, False], ids=["inline", "queue"])
def harness(request: pytest.FixtureRequest) -> Any:
    made = NetworkHarness(inline=request.param)
    yield made
    made.processor.close()


def answers(*frames: bytes) -> bytes:
    return framed(*(b"re:" + frame for frame in frames))


# -- in order, once, from whichever thread


def test_a_request_is_answered_and_stamped(harness: NetworkHarness) -> None:
    client = harness.connect()
    client.send(framed(b"one"))
    harness.settle()
    assert client.take() == answers(b"one")
    (request,) = harness.completed
    stamps = (
        request.received_ns,
        request.dequeued_ns,
        request.local_complete_ns,
        request.response_complete_ns,
        request.response_dequeued_ns,
        request.sent_ns,
    )
    assert all(stamps)
    assert list(stamps) == sorted(stamps)


def test_pipelined_requests_are_answered_in_order(harness: NetworkHarness) -> None:
    client = harness.connect()
    frames = [b"%d" % n for n in range(100)]
    client.send(framed(*frames))
    for _ in range(110):
        harness.turn(2)
    assert client.take() == answers(*frames)
    assert harness.seen == frames
    assert [request.body for request in harness.completed] == frames


def test_run_at_once_the_answers_of_a_turn_leave_in_one_write() -> None:
    harness = NetworkHarness()
    client = harness.connect()
    harness.turn()
    client.send(framed(*[b"x"] * 50))
    harness.turn()
    assert client.take() == answers(*[b"x"] * 50)
    assert client.peer is not None
    assert client.peer.sends == 1
    assert (len(harness.completed), harness.handler.handled) == (50, 0)


@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.ECONNRESET, errno.ENETUNREACH, errno.EMFILE])
def test_a_connection_that_was_reset_at_once_is_an_ordinary_event(
    harness: NetworkHarness, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A health check connects and resets. Only an error of this process is worth a line, and a traceback."""
    caplog.set_level(logging.INFO)

    def no_peer() -> Any:
        raise OSError(code, os.strerror(code))

    server, _ = harness.network.pair()
    server.getpeername = no_peer  # type: ignore[method-assign]
    harness.quotas.increment("PLAINTEXT", "127.0.0.1")
    assert harness.processor.accept(server, "127.0.0.1", may_block=False)
    client = harness.connect()
    client.send(framed(b"one"))
    harness.settle()
    assert client.take() == answers(b"one")
    assert server.closed
    assert harness.quotas.total == 1
    expected = [("ERROR", True)] if code == errno.EMFILE else []
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == expected


def test_a_request_that_waits_holds_back_those_behind_it_but_not_other_connections(harness: NetworkHarness) -> None:
    waiting: list[Request[Any]] = []

    def on_request(request: Request[Any]) -> None:
        if request.body == b"wait":
            waiting.append(request)
        else:
            harness.answer(request)

    harness.on_request = on_request
    client, other = harness.connect(), harness.connect()
    client.send(framed(b"wait", b"behind"))
    other.send(framed(b"quick"))
    harness.settle()
    assert other.take() == answers(b"quick")
    assert harness.seen.count(b"behind") == 0
    client.send(framed(b"later"))
    harness.settle()
    assert client.take() == b""
    harness.answer(waiting.pop())
    harness.settle()
    assert client.take() == answers(b"wait", b"behind", b"later")


def test_a_request_that_waits_is_answered_when_the_next_one_arrives(harness: NetworkHarness) -> None:
    """Before or after the request began to wait; and not again at once, or two requests would end all waits."""

    def on_request(request: Request[Any]) -> None:
        if request.body.startswith(b"wait"):
            request.channel.when_next_arrives(lambda: harness.answer(request))
        else:
            harness.answer(request)

    harness.on_request = on_request
    client = harness.connect()
    client.send(framed(b"wait"))
    harness.settle()
    assert client.take() == b""
    client.send(framed(b"behind"))
    harness.settle()
    assert client.take() == answers(b"wait", b"behind")
    client.send(framed(b"wait again"))
    harness.settle()
    client.send(framed(b"behind"))
    harness.settle()
    assert client.take() == b""
    harness.clock.advance(50)
    client.send(framed(b"later"))
    harness.settle()
    assert client.take() == answers(b"wait again", b"behind", b"later")


def test_a_request_that_has_arrived_already_hurries_the_one_before_it(harness: NetworkHarness) -> None:
    def on_request(request: Request[Any]) -> None:
        if request.body == b"wait":
            request.channel.when_next_arrives(lambda: harness.answer(request))
        else:
            harness.answer(request)

    harness.on_request = on_request
    client = harness.connect()
    client.send(framed(b"wait", b"behind"))
    harness.settle()
    assert client.take() == answers(b"wait", b"behind")


def test_one_connections_request_may_complete_anothers(harness: NetworkHarness) -> None:
    waiting: list[Request[Any]] = []

    def on_request(request: Request[Any]) -> None:
        if request.body == b"fetch":
            waiting.append(request)
        else:
            for fetch in waiting:
                harness.answer(fetch)
            waiting.clear()
            harness.answer(request)

    harness.on_request = on_request
    fetcher, producer = harness.connect(), harness.connect()
    fetcher.send(framed(b"fetch", b"next"))
    harness.settle()
    producer.send(framed(b"produce"))
    harness.settle()
    assert producer.take() == answers(b"produce")
    assert fetcher.take() == answers(b"fetch", b"next")
    assert len(harness.completed) == 3


def test_no_answer_reads_on(harness: NetworkHarness) -> None:
    harness.on_request = lambda request: request.channel.no_op(request)
    client = harness.connect()
    client.send(framed(b"one", b"two"))
    harness.settle()
    assert (harness.seen, client.take()) == ([b"one", b"two"], b"")
    assert all(request.sent_ns and request.response_complete_ns for request in harness.completed)


def test_close_instead_of_an_answer(harness: NetworkHarness) -> None:
    def on_request(request: Request[Any]) -> None:
        if request.body == b"close":
            request.close_connection()
        else:
            harness.answer(request)

    harness.on_request = on_request
    client, other = harness.connect(), harness.connect()
    client.send(framed(b"one", b"close", b"never"))
    other.send(framed(b"fine"))
    harness.settle()
    assert harness.seen.count(b"never") == 0
    assert client.take() == answers(b"one")
    assert client.finished
    assert other.take() == answers(b"fine")
    assert len(harness.completed) == 3
    assert harness.quotas.total == 1


def test_a_throttled_connection_is_answered_and_not_read_until_the_end(harness: NetworkHarness) -> None:
    throttled: list[Request[Any]] = []

    def on_request(request: Request[Any]) -> None:
        if request.body == b"much":
            throttled.append(request)
            request.channel.start_throttling(request)
        harness.answer(request)

    harness.on_request = on_request
    client = harness.connect()
    client.send(framed(b"much", b"more"))
    harness.settle()
    assert client.take() == answers(b"much")
    assert harness.connections()[0].mute_state is MuteState.MUTED_AND_THROTTLED
    throttled[0].channel.end_throttling(throttled[0])
    harness.settle()
    assert client.take() == answers(b"more")


def test_a_continuation_runs_on_a_handler(harness: NetworkHarness) -> None:
    def on_request(request: Request[Any]) -> None:
        request.channel.resume(lambda: harness.answer(request))

    harness.on_request = on_request
    client = harness.connect()
    client.send(framed(b"one"))
    harness.settle()
    assert client.take() == answers(b"one")


def test_large_frames_are_handled_and_their_buffers_recycled(harness: NetworkHarness) -> None:
    client = harness.connect()
    for number in range(4):
        client.send(framed(bytes([65 + number]) * 300_000))
        harness.settle()
    assert client.take() == answers(*(bytes([65 + n]) * 40 for n in range(4)))
    assert (harness.pool.recycled, harness.pool.leaked) == (3, 0)


def test_a_long_file_leaves_in_turns_and_others_have_theirs(harness: NetworkHarness, tmp_path: Path) -> None:
    content = os.urandom(5 * FILE_BYTES_PER_TURN + 12345)
    (tmp_path / "segment").write_bytes(content)
    released: list[bool] = []
    descriptor = os.open(tmp_path / "segment", os.O_RDONLY)

    class File:
        def prefetch(self, position: int, size: int) -> None:
            pass

        def is_cached(self, position: int) -> bool:
            return True

        def fileno(self) -> int:
            return descriptor

        def release(self) -> None:
            released.append(True)

    def on_request(request: Request[Any]) -> None:
        if request.body == b"fetch":
            records = FileRecords(File(), 0, len(content))  # type: ignore[arg-type]
            request.channel.send(request, [b"head", records, b"tail"])
        else:
            harness.answer(request)

    harness.on_request = on_request
    consumer, other = harness.connect(capacity=10 << 20), harness.connect()
    consumer.send(framed(b"fetch", b"next"))
    harness.turn(3)
    assert 0 < len(consumer.incoming) < len(content)
    other.send(framed(b"quick"))
    harness.turn(3)
    assert other.take() == answers(b"quick")
    harness.turn(10)
    assert consumer.take() == b"head" + content + b"tail" + answers(b"next")
    assert released == [True]
    assert len(harness.completed) == 3
    os.close(descriptor)


def test_a_request_leaves_no_garbage_cycles(harness: NetworkHarness) -> None:
    client = harness.connect()
    client.send(framed(b"warm up"))
    harness.settle()
    harness.completed.clear()
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            client.send(framed(b"x", b"y"))
            client.send(framed(bytes(70_000)))
            harness.settle()
        harness.completed.clear()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("begins_to_wait", ["before the connection ends", "afterwards"])
def test_a_request_that_waits_is_freed_with_its_connection(harness: NetworkHarness, begins_to_wait: str) -> None:
    """Connection, the end of the wait, and the request refer to each other in a ring: the end opens it."""
    waiting: list[Request[Any]] = []
    finishes: list[weakref.ref[Callable[[], None]]] = []

    def begin_to_wait() -> None:
        finish = partial(harness.answer, waiting[0])
        finishes.append(weakref.ref(finish))
        waiting[0].channel.when_next_arrives(finish)

    harness.on_request = waiting.append
    client = harness.connect()
    client.send(framed(b"wait"))
    harness.settle()
    gc.collect()
    gc.disable()
    try:
        if begins_to_wait == "before the connection ends":
            begin_to_wait()
        harness.processor.close()
        assert harness.connections() == []
        if begins_to_wait == "afterwards":
            begin_to_wait()
        harness.answer(waiting.pop())
        harness.completed.clear()
        assert [finish() for finish in finishes] == [None]
    finally:
        gc.enable()


def test_answers_after_the_end_give_their_files_back(harness: NetworkHarness) -> None:
    waiting: list[Request[Any]] = []
    harness.on_request = waiting.append
    client = harness.connect()
    client.send(framed(b"fetch"))
    harness.settle()
    harness.processor.close()
    released: list[bool] = []

    class File:
        def release(self) -> None:
            released.append(True)

    waiting[0].channel.send(waiting[0], [b"head", FileRecords(File(), 0, 100)])  # type: ignore[arg-type]
    assert released == [True]
    assert not harness.processor.answers.responses
    assert client.finished


# -- bad input


@pytest.mark.parametrize(
    ("nonsense", "line"),
    [
        (b"\xff\xff\xff\xff", "Invalid receive (size = -1)"),
        (b"\x7f\xff\xff\xff", "Invalid receive (size = 2147483647 larger than 1048576)"),
        (framed(b"good", b"bad"), "invalid request: unknown API key 99 (version 3)"),
        (framed(b"good") + b"GET / HTTP/1.1\r\n\r\n", "Invalid receive (size = 1195725856 larger than 1048576)"),
    ],
)
def test_nonsense_closes_that_one_connection_with_one_line(
    harness: NetworkHarness, caplog: pytest.LogCaptureFixture, nonsense: bytes, line: str
) -> None:
    bad, good = harness.connect(), harness.connect()
    good.send(framed(b"before"))
    bad.send(nonsense)
    with caplog.at_level(logging.INFO):
        harness.settle()
    good.send(framed(b"after"))
    harness.settle()
    assert good.take() == answers(b"before", b"after")
    assert bad.finished
    assert bad.take() in (b"", answers(b"good"))
    (record,) = caplog.records
    assert line in record.getMessage()
    assert "127.0.0.1:9092-127.0.0.1:40000-0" in record.getMessage()
    assert harness.quotas.total == 1


def test_an_invalid_request_is_logged_with_its_listener_and_principal(
    harness: NetworkHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.connect().send(framed(b"bad"))
    harness.settle()
    assert "(listener PLAINTEXT, principal User:ANONYMOUS)" in caplog.text


def test_a_truncated_frame_waits_and_ends_with_its_connection(harness: NetworkHarness) -> None:
    client = harness.connect()
    client.send(framed(b"whole", b"truncated")[:-3])
    harness.settle()
    assert client.take() == answers(b"whole")
    client.close()
    harness.settle()
    assert (harness.seen, harness.quotas.total) == ([b"whole"], 0)


def test_a_bug_in_the_parser_costs_one_connection(
    harness: NetworkHarness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(frame: Any, *fields: Any) -> Any:
        if bytes(frame) == b"bug":
            raise KeyError("a bug")
        return NetworkHarness.parse(harness, frame, *fields)

    monkeypatch.setattr(harness.parser, "parse_frame", parse)
    client, other = harness.connect(), harness.connect()
    client.send(framed(b"bug"))
    other.send(framed(b"fine"))
    harness.settle()
    assert client.finished
    assert other.take() == answers(b"fine")
    assert "Exception while processing a request" in caplog.text


@pytest.mark.interpreted
def test_a_turn_that_fails_loses_no_request(
    harness: NetworkHarness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect anywhere between the receive and the request: the frame is taken all the same, and others go on."""
    client, other = harness.connect(), harness.connect()
    harness.settle()
    client.send(framed(b"one", b"two"))
    with monkeypatch.context() as patched:
        patched.setattr(harness.processor, "process_completed_receives", _fail)
        harness.processor.run_guarded()
    other.send(framed(b"three"))
    harness.settle()
    assert client.take() == answers(b"one", b"two")
    assert other.take() == answers(b"three")
    assert "error in the loop" in caplog.text


def _fail() -> None:
    raise KeyError("a bug")


def test_a_peer_that_never_reads_is_not_served_without_end(harness: NetworkHarness) -> None:
    harness.on_request = lambda request: request.channel.send(request, [framed(bytes(10_000))])
    greedy, other = harness.connect(capacity=50_000), harness.connect()
    for _ in range(10):
        greedy.send(framed(*[b"more"] * 100))
        other.send(framed(b"x"))
        harness.settle()
        assert len(other.take()) == 10_004
    (connection, _) = harness.connections()
    assert connection.channel.outgoing.unsent < 200_000
    received = 0
    for _ in range(1000):
        received += len(greedy.take())
        harness.turn(2)
        if received == 1000 * 10_004:
            break
    assert received == 1000 * 10_004
    assert len(harness.completed) == 1010


# -- losses


def test_an_answer_to_a_client_that_is_gone_is_dropped(harness: NetworkHarness) -> None:
    waiting: list[Request[Any]] = []
    harness.on_request = waiting.append
    client = harness.connect()
    client.send(framed(b"one"))
    harness.settle()
    client.reset()
    harness.settle()
    assert harness.connections() == []
    harness.answer(waiting[0])
    harness.settle()
    assert [request.body for request in harness.completed] == [b"one"]


def test_a_half_closed_client_gets_its_answers(harness: NetworkHarness) -> None:
    client = harness.connect()
    client.send(framed(b"one", b"two"))
    client.finish()
    harness.settle()
    assert client.take() == answers(b"one", b"two")
    assert client.finished
    assert harness.quotas.total == 0


def test_answers_that_never_left_are_accounted_for(harness: NetworkHarness) -> None:
    client = harness.connect(capacity=3)
    client.send(framed(b"one"))
    harness.settle()
    assert harness.completed == []
    client.reset()
    harness.settle()
    assert [request.body for request in harness.completed] == [b"one"]
    assert harness.quotas.total == 0


def test_idle_connections_are_closed() -> None:
    harness = NetworkHarness(idle_ms=1000)
    client = harness.connect()
    harness.settle()
    harness.clock.advance(1001)
    harness.turn()
    assert client.finished
    assert harness.quotas.total == 0


# -- connections


def test_at_most_twenty_connections_are_configured_in_a_turn(harness: NetworkHarness) -> None:
    for _ in range(20):
        harness.connect()
    server, _ = harness.network.pair()
    harness.quotas.increment("PLAINTEXT", "127.0.0.1")
    assert not harness.processor.accept(server, "127.0.0.1", may_block=False)
    harness.turn()
    assert harness.processor.connection_count == 20
    assert harness.processor.accept(server, "127.0.0.1", may_block=False)


def test_an_excess_connection_is_given_up_a_turn() -> None:
    harness = NetworkHarness(limits=NetworkConfig(max_connections=2, inter_broker_listener="INTERNAL"))
    harness.quotas.add_listener("INTERNAL", ListenerConfig())
    first = harness.connect()
    harness.turn()
    harness.clock.advance(1)
    second = harness.connect()
    harness.turn()
    harness.quotas.increment("INTERNAL", "10.0.0.9")
    harness.turn()
    assert first.finished
    assert not second.finished
    assert harness.quotas.total == 2
    harness.turn()
    assert not second.finished


def test_a_removed_processor_closes_each_connection_when_it_is_answered_and_then_ends(harness: NetworkHarness) -> None:
    waiting: list[Request[Any]] = []
    harness.on_request = waiting.append
    idle, first, second = (harness.connect() for _ in range(3))
    first.send(framed(b"1"))
    second.send(framed(b"2"))
    harness.settle()
    late, _ = harness.network.pair()
    assert harness.processor.begin_retirement(1000) == []
    assert not harness.processor.accept(late, "127.0.0.1", may_block=True)
    first.send(framed(b"not taken"))
    harness.settle()
    assert (idle.finished, first.finished, second.finished) == (True, False, False)
    harness.answer(waiting[0])
    harness.settle()
    assert (first.take(), first.finished) == (framed(b"re:1"), True)
    assert harness.is_running()
    harness.answer(waiting[1])
    harness.settle()
    assert (second.take(), second.finished) == (framed(b"re:2"), True)
    assert not harness.is_running()
    assert [request.body for request in waiting] == [b"1", b"2"]
    harness.processor.close()
    assert harness.request_channel.response_queue_sizes == {}
    assert harness.quotas.total == 0


def test_a_removed_processor_gives_back_what_it_has_not_begun_with(harness: NetworkHarness) -> None:
    server, _ = harness.network.pair()
    assert harness.processor.accept(server, "10.0.0.1", may_block=False)
    assert harness.processor.begin_retirement(1000) == [NewConnection(server, "10.0.0.1")]
    harness.turn()
    assert not harness.is_running()


def test_a_removed_processor_does_not_wait_for_ever(harness: NetworkHarness) -> None:
    harness.on_request = lambda request: None
    client = harness.connect()
    client.send(framed(b"1"))
    harness.settle()
    harness.processor.begin_retirement(1000)
    harness.settle()
    assert harness.is_running()
    harness.clock.advance(1000)
    harness.turn()
    assert not harness.is_running()
    harness.processor.close()
    assert client.finished


def test_draining_finishes_what_was_taken_and_takes_nothing_new(harness: NetworkHarness) -> None:
    waiting: list[Request[Any]] = []
    harness.on_request = waiting.append
    client = harness.connect()
    client.send(framed(b"taken"))
    harness.settle()
    harness.processor.begin_drain()
    client.send(framed(b"new"))
    harness.settle()
    assert not harness.processor.await_drained(0)
    harness.answer(waiting[0])
    harness.settle()
    assert harness.processor.await_drained(0)
    assert (client.take(), harness.seen) == (answers(b"taken"), [b"taken"])


class TalkativeAuthenticator:
    """Answers the first frame with more than the peer takes at once, and is content."""

    def __init__(self) -> None:
        self.complete = False
        self.principal = "User:alice"

    def authenticate(self, conversation: Conversation) -> None:
        if conversation.receive_frame() is not None:
            conversation.send([framed(bytes(2000))])
            self.complete = True

    def close(self) -> None:
        """Nothing was kept."""


@pytest.mark.parametrize("request_comes", ["after", "before"])
def test_last_words_of_the_authenticator_that_leave_late_are_nobodys_answer(request_comes: str) -> None:
    harness = NetworkHarness(authenticator=TalkativeAuthenticator)
    harness.on_request = lambda request: request.channel.no_op(request)
    client = harness.connect(capacity=1000)
    client.send(framed(b"hello"))
    if request_comes == "before":
        client.send(framed(b"silent"))
    harness.settle()
    said = b""
    while piece := client.take():
        said += piece
        harness.settle()
    assert said == framed(bytes(2000))
    harness.on_request = harness.answer
    client.send(framed(b"one"))
    harness.settle()
    assert client.take() == answers(b"one")
    harness.processor.close()


# -- which thread


def test_a_request_that_is_not_brief_goes_through_the_queue() -> None:
    harness = NetworkHarness()
    harness.brief = False
    client = harness.connect()
    client.send(framed(b"one", b"two"))
    harness.settle()
    assert client.take() == answers(b"one", b"two")
    assert (len(harness.completed), harness.handler.handled) == (2, 2)


def test_nothing_runs_at_once_while_a_request_is_queued() -> None:
    harness = NetworkHarness()
    slow, quick = harness.connect(), harness.connect()
    harness.turn()
    harness.brief = False
    slow.send(framed(b"slow"))
    harness.processor_turn()
    harness.brief = True
    quick.send(framed(b"quick"))
    harness.processor_turn()
    assert harness.seen == []
    harness.settle()
    assert harness.seen == [b"slow", b"quick"]


def harness_of_requests_that_take(milliseconds: float) -> NetworkHarness:
    harness = NetworkHarness()

    def on_request(request: Request[Any]) -> None:
        harness.clock.advance(milliseconds)
        harness.answer(request)

    harness.on_request = on_request
    return harness


def test_a_turn_that_is_used_up_leaves_the_rest_for_the_next() -> None:
    harness = harness_of_requests_that_take(0.6)
    first, second = harness.connect(), harness.connect()
    harness.turn()
    first.send(framed(b"1", b"2", b"3"))
    second.send(framed(b"4"))
    harness.turn()
    assert harness.seen == [b"1", b"2"]
    harness.turn()
    assert harness.seen == [b"1", b"2", b"4", b"3"], "the client whose turn it was comes last"
    assert harness.network.poller.timeouts[-1] == 0
    harness.settle()
    assert (first.take(), second.take()) == (answers(b"1", b"2", b"3"), answers(b"4"))
    assert harness.handler.handled == 0


def test_clients_that_send_many_requests_at_once_take_turns() -> None:
    harness = harness_of_requests_that_take(0.6)
    greedy = [harness.connect() for _ in range(3)]
    victim = harness.connect()
    harness.turn()
    for number, end in enumerate(greedy):
        end.send(framed(*(b"%d.%d" % (number, index) for index in range(100))))
    harness.turn()
    victim.send(framed(b"victim"))
    harness.turn(3)
    # A turn has room for two requests. Each greedy client has had one, and one that comes later waits for no more.
    assert harness.seen == [b"0.0", b"0.1", b"1.0", b"1.1", b"2.0", b"2.1", b"victim", b"0.2"]
    harness.turn(300)
    assert len(harness.seen) == 301
    for number, end in enumerate(greedy):
        assert end.take() == answers(*(b"%d.%d" % (number, index) for index in range(100)))


def test_behind_a_slow_request_the_queue_takes_over_for_the_turn() -> None:
    harness = NetworkHarness()

    def on_request(request: Request[Any]) -> None:
        if request.body == b"slow":
            harness.clock.advance(SLOW_REQUEST_NS / 1e6 + 1)
        harness.answer(request)

    harness.on_request = on_request
    first, second = harness.connect(), harness.connect()
    harness.turn()
    first.send(framed(b"slow"))
    second.send(framed(b"quick"))
    harness.settle()
    assert (len(harness.completed), harness.handler.handled) == (2, 1)
    assert (first.take(), second.take()) == (answers(b"slow"), answers(b"quick"))


def test_a_full_queue_stages_requests_and_keeps_answers_flowing() -> None:
    harness = NetworkHarness(inline=False, queue_size=1)
    clients = [harness.connect() for _ in range(4)]
    for number, client in enumerate(clients):
        client.send(framed(b"%d" % number))
    harness.processor_turn()
    harness.processor_turn()
    assert harness.request_channel.request_queue_size == 1
    harness.handler.run_once(0)
    harness.processor_turn()
    assert clients[0].take() == answers(b"0")
    harness.settle()
    assert [client.take() for client in clients[1:]] == [answers(b"1"), answers(b"2"), answers(b"3")]
    assert harness.seen == [b"0", b"1", b"2", b"3"]


def test_large_and_small_frames_in_any_mix_keep_their_order(harness: NetworkHarness) -> None:
    sizes = [10, 70_000, 3, 0, 65_536, 65_535, 200_000, 1]
    frames = [struct.pack(">i", number) * (size // 4 + 1) for number, size in enumerate(sizes)]
    client = harness.connect()
    client.send(framed(*frames))
    for _ in range(30):
        harness.turn()
    assert harness.seen == frames
