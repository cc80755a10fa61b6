"""A broker that plays one release of Apache Kafka: clients find its versions, and get on with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer

from barnabas.clients.consumer import Consumer as OurConsumer
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka_releases import listed_versions
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.topic_partition import TopicPartition as Place
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import AGAINST_KAFKA, make_server

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="a setting of ours")

SECONDS = 30


@pytest.mark.parametrize("release", ["2.8", "4.0"])
def test_clients_get_on_with_a_release(release: str, tmp_path: Path) -> None:
    server = make_server("inline", tmp_path / "server", broker_emulate_version=release)
    with server.running():
        with RawClient(server) as client:
            listed = client.supported_versions()
            expected = listed_versions(release)
            assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS} <= listed.keys()
            assert listed.keys() <= expected.keys()
            for api_key, (lowest, highest) in listed.items():
                whole_lowest, whole_highest = expected[ApiKey(api_key)]
                assert whole_lowest <= lowest <= highest <= whole_highest
            client.create_topic("flights")

        producer = Producer({"bootstrap.servers": server.bootstrap_servers, "compression.type": "zstd"})
        producer.produce("flights", b"from librdkafka", partition=0)
        assert producer.flush(SECONDS) == 0
        with KafkaProducer(bootstrap_servers=server.bootstrap_servers) as sender:
            sender.send("flights", b"from kafka-python", partition=0).get(SECONDS)
        settings = {"bootstrap.servers": server.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
        reader = Consumer(settings)
        reader.assign([TopicPartition("flights", 0, 0)])
        values = [message.value() for message in reader.consume(2, SECONDS)]
        reader.close()
        assert values == [b"from librdkafka", b"from kafka-python"]
        with OurConsumer(server.bootstrap_servers, auto_offset_reset="earliest") as own:
            own.assign([Place("flights", 0)])
            assert [record.value for record in own.poll(SECONDS * 1000)] == values


def test_other_versions_close_the_connection(tmp_path: Path) -> None:
    server = make_server("inline", tmp_path / "server", broker_emulate_version="4.0")
    with server.running():
        for version in (0, 9, 12):
            request = MetadataRequest([])
            with RawClient(server) as client:
                client.send(request, version)
                assert client.receive_frame()
        with RawClient(server) as client:
            client.send(RawClient.produce_request(client, "flights", None, 2, 1), 2)
            assert client.is_closed_by_broker(), "Kafka 4.0 lists version 0 of Produce, and takes 3 and later"
        with RawClient(server) as client:
            answer = client.call(ApiVersionsRequest("raw-client", "1.0"), 4, ApiVersionsResponse)
            assert answer.error_code == ErrorCode.NONE
            assert (0, 0, 12) in [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]
    # Only now: log lines are written by a thread of their own, behind the connection that closes.
    assert "unsupported version 2 of PRODUCE: versions 3 to 12 are supported" in server.log_text()
