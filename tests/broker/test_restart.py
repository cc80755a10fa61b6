"""A clean stop and start: topics, ids, settings, records are as before, and so is what comes next."""

from __future__ import annotations

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.records.record_batch import batches
from tests.support.raw_client import RawClient, record_bytes
from tests.support.server_fixtures import MODES, Server

TOPIC_RESOURCE = 2
in_each_mode = pytest.mark.parametrize("own_server", MODES, indirect=True)


def _values(client: RawClient, topic: str, partition: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while True:
        fetched = client.fetch(topic, len(values), partition=partition)
        assert fetched.error_code == ErrorCode.NONE
        found = [record.value for batch in batches(record_bytes(fetched)) for record in batch.records()]
        if not found:
            return values
        values += found


@in_each_mode
def test_everything_is_there_again(own_server: Server) -> None:
    own_server.start()
    written = [b"%d" % number * 50 for number in range(300)]
    with RawClient(own_server) as client:
        client.create_topic("kept", 3, {"segment.bytes": "16384", "retention.ms": "987654321"})
        client.create_topic("dropped")
        for value in written:
            client.produce_values("kept", value, partition=1)
        before = client.metadata("kept", 12)
        cluster_id = client.call(MetadataRequest([]), 9, MetadataResponse).cluster_id
        client.call(DeleteTopicsRequest([], ["dropped"], 10_000), 5, DeleteTopicsResponse)

    for _ in range(2):
        own_server.stop()
        own_server.start()
        with RawClient(own_server) as client:
            client.wait_for_leaders("kept", 3)
            after = client.metadata("kept", 12)
            assert after.topic_id == before.topic_id
            assert len(after.partitions) == 3
            assert client.call(MetadataRequest([]), 9, MetadataResponse).cluster_id == cluster_id
            assert client.metadata("dropped").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert _values(client, "kept", 1) == written
            assert _values(client, "kept", 0) == []
            assert client.produce_values("kept", b"after a restart", partition=1) == len(written)
            written.append(b"after a restart")
            wanted = DescribeConfigsRequest.DescribeConfigsResource(TOPIC_RESOURCE, "kept", ["retention.ms"])
            (described,) = client.call(DescribeConfigsRequest([wanted]), 2, DescribeConfigsResponse).results
            assert [config.value for config in described.configs] == ["987654321"]
