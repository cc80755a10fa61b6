"""A start: who asks before the broker is ready is answered when it is, and never from empty metadata."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import SECONDS, ConnectionClosed, RawClient
from tests.support.server_process import free_port

TOPICS, PARTITIONS = 10, 20


def _first_answer(server: BarnabasProcess) -> MetadataResponse:
    """Connect as soon as the listener is bound, and ask for all topics at once."""
    while True:
        try:
            client = RawClient(server)
        except ConnectionRefusedError:
            continue
        with client:
            return client.call(MetadataRequest(None), 9, MetadataResponse)


def test_the_first_answer_of_a_new_start_tells_everything(tmp_path: Path) -> None:
    server = BarnabasProcess(tmp_path / "server", port=free_port())
    server.start()
    with RawClient(server) as client:
        for number in range(TOPICS):
            client.create_topic(f"topic-{number}", PARTITIONS)
    server.stop()
    for _ in range(2):
        starting = threading.Thread(target=server.start)
        starting.start()
        answer = _first_answer(server)
        starting.join(SECONDS)
        assert not starting.is_alive()
        assert answer.controller_id == answer.brokers[0].node_id
        assert len(answer.topics) == TOPICS
        for topic in answer.topics:
            assert topic.error_code == ErrorCode.NONE
            assert [partition.error_code for partition in topic.partitions] == [ErrorCode.NONE] * PARTITIONS
        with RawClient(server) as client:
            assert client.produce_values("topic-7", b"value", partition=3) >= 0
        server.stop()


def test_limits_of_nothing_keep_clients_out_and_not_the_controller(tmp_path: Path) -> None:
    server = BarnabasProcess(
        tmp_path / "server", {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.9.9.9:1"}
    )
    with server.running(), RawClient(server) as client:
        assert client.is_closed_by_broker()


@pytest.mark.slow
def test_clients_that_hold_every_connection_do_not_keep_the_broker_from_starting(tmp_path: Path) -> None:
    """They wait for it, and it for its controller, which comes over a connection like theirs."""
    server = BarnabasProcess(tmp_path / "server", {"max.connections": "4"}, port=free_port())
    server.start()
    server.stop()
    ended = threading.Event()
    clients = [threading.Thread(target=_ask_again_and_again, args=(server, ended)) for _ in range(6)]
    for client in clients:
        client.start()
    try:
        server.start()
    finally:
        ended.set()
        server.kill()
        for client in clients:
            client.join(SECONDS)


def _ask_again_and_again(server: BarnabasProcess, ended: threading.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(OSError, ConnectionClosed), RawClient(server) as client:
            client.call(MetadataRequest(topics=[]), 12, MetadataResponse)
            ended.wait(SECONDS)
