"""Our clients when a real broker goes away: they find it again elsewhere, and say meanwhile what is missing."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import pytest

from barnabas.clients.consumer import Consumer, TopicPartition
from barnabas.clients.errors import ClientTimeout
from barnabas.clients.producer import Producer
from tests.support.barnabas_process import BarnabasProcess
from tests.support.server_process import free_port

WAIT_S = 60


def test_a_cluster_that_has_moved_is_found_again_through_the_bootstrap_servers(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    servers = [f"127.0.0.1:{port}" for port in ports]
    first = BarnabasProcess(tmp_path, port=ports[0])
    first.start()
    with closing(first), Producer(servers) as producer, Consumer(servers, auto_offset_reset="earliest") as consumer:
        assert producer.send("moved", b"before").result(WAIT_S).offset == 0
        place = TopicPartition("moved", 0)
        consumer.assign([place])
        assert [record.value for record in consumer.poll(WAIT_S * 1000)] == [b"before"]
        first.stop()
        # The clients know one broker, and it is gone: only the bootstrap servers have the new address.
        second = BarnabasProcess(tmp_path, port=ports[1])
        second.start()
        with closing(second):
            assert producer.send("moved", b"after").result(WAIT_S).offset == 1
            assert [record.value for record in consumer.poll(WAIT_S * 1000)] == [b"after"]


def test_a_broker_that_is_away_is_named_with_the_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = BarnabasProcess(tmp_path, port=free_port())
    broker.start()
    address = f"127.0.0.1:{broker.port}"
    with (
        closing(broker),
        # The wait for metadata is limited, too: a client that finds no broker before the second send begins again from
        # its bootstrap servers, and knows no topic then.
        Producer(
            address, linger_ms=0, request_timeout_ms=1_500, delivery_timeout_ms=2_000, max_block_ms=5_000
        ) as producer,
    ):
        producer.send("gone", b"v").result(WAIT_S)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            broker.stop()
            with pytest.raises(ClientTimeout) as raised:
                producer.send("gone", b"v").result(WAIT_S)
    assert f"{address}: connection refused" in str(raised.value)
    said = [message for message in caplog.messages if message.startswith("Cannot connect to broker")]
    assert said
    assert all(address in message and "connection refused" in message for message in said)
    assert len(said) <= 2, "once for each address: the bootstrap server's and the broker's"
