"""SIGTERM: what is under way is finished or let go, the process ends with status 0, nothing acknowledged is lost."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceResponse
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server
from tests.support.stored_batches import stored_batches

STOPPED = 143 if AGAINST_KAFKA else 0
"""A JVM that ends by SIGTERM says so."""
in_each_mode = pytest.mark.parametrize("own_server", MODES, indirect=True)


@in_each_mode
def test_long_polls_do_not_hold_it_up(own_server: Server) -> None:
    own_server.start()
    with RawClient(own_server) as client:
        client.create_topic("topic")
        waiting = [RawClient(own_server) for _ in range(10)]
        for each in waiting:
            each.send(each.fetch_request("topic", 0, max_wait_ms=3_600_000), 12)
        assert client.end_offset("topic") == 0
        assert own_server.stop(timeout_seconds=30) == STOPPED
        for each in waiting:
            with suppress(ConnectionClosed):
                each.receive_frame()  # an answer may still come, the end must
            assert each.is_closed_by_broker()
            each.close()
    assert (own_server.data_dir / ".kafka_cleanshutdown").exists()


@in_each_mode
def test_under_load(own_server: Server) -> None:
    own_server.start()
    acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(3)]
    with RawClient(own_server) as client:
        client.create_topic("topic", len(acknowledged), {"segment.bytes": "65536"})

    enough = threading.Event()

    def produce(partition: int) -> None:
        """Five requests in flight, until the connection ends."""
        mine = acknowledged[partition]
        with RawClient(own_server) as client:
            request = client.produce_request("topic", make_batch([bytes(500)] * 3), 9, acks=-1, partition=partition)
            try:
                in_flight = [client.send(request, 9) for _ in range(5)]
                while True:
                    answer = client.receive(ProduceResponse, 9, in_flight.pop(0))
                    (result,) = answer.responses[0].partition_responses
                    if result.error_code != ErrorCode.NONE:
                        return  # the broker no longer leads: it is on its way down
                    mine.append((result.base_offset, 3))
                    if len(mine) > 100:
                        enough.set()
                    in_flight.append(client.send(request, 9))
            except (ConnectionClosed, OSError):
                return

    producers = [threading.Thread(target=produce, args=(partition,)) for partition in range(len(acknowledged))]
    for each in producers:
        each.start()
    assert enough.wait(60)
    own_server.send_signal(signal.SIGTERM)
    assert own_server.wait(60) == STOPPED
    for each in producers:
        each.join(30)
    assert (own_server.data_dir / ".kafka_cleanshutdown").exists()
    for partition, mine in enumerate(acknowledged):
        on_disk = {
            (batch.base_offset, batch.count) for batch in stored_batches(own_server.data_dir, "topic", partition)
        }
        assert set(mine) <= on_disk


@pytest.mark.skipif(AGAINST_KAFKA, reason="a JVM ends by SIGINT with 130")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_idle(own_server: Server, number: signal.Signals) -> None:
    own_server.start()
    own_server.send_signal(number)
    assert own_server.wait(30) == 0
    assert "Traceback" not in own_server.log_text()
