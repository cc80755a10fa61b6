"""Waits until the transactions in some partitions have their markers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.clients.consumer import Consumer
from barnabas.protocol.messages.transactions import DescribeProducersRequest, DescribeProducersResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.raw_client import RawClient


def wait_for_markers(bootstrap: str, partitions: Sequence[TopicPartition]) -> None:
    """Wait until no transaction is open in the partitions.

    The coordinator answers the end of a transaction when its decision is stored, and writes the markers afterwards: a
    reader of committed records that asks for the end at once may get the offset where the transaction began.
    """
    with (
        Consumer(bootstrap, isolation_level="read_committed") as stable,
        Consumer(bootstrap, isolation_level="read_uncommitted") as written,
    ):
        while stable.end_offsets(partitions) != written.end_offsets(partitions):
            time.sleep(0.01)


def describe_producers(
    client: RawClient, topic: str, *partitions: int
) -> list[DescribeProducersResponse.PartitionResponse]:
    """The answers for these partitions."""
    request = DescribeProducersRequest([DescribeProducersRequest.TopicRequest(topic, list(partitions))])
    (answered,) = client.call(request, 0, DescribeProducersResponse).topics
    assert answered.name == topic
    assert [each.partition_index for each in answered.partitions] == list(partitions)
    return answered.partitions
