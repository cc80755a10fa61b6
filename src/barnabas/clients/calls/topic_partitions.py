"""Looks up the partitions of one topic, which the client need not follow.

Called by `Consumer.partitions_for`, on the thread that owns the BlockingClient; no state, no lock.
Kafka: TopicMetadataFetcher.
"""

from __future__ import annotations

from typing import cast

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.metadata.cluster import PartitionInfo
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.rpc.exponential_backoff import ExponentialBackoff


def partitions_of(
    client: BlockingClient, topic: str, backoff: ExponentialBackoff, deadline_ms: int, *, may_create: bool
) -> tuple[PartitionInfo, ...]:
    """Return the topic's partitions in order, or nothing for a topic that does not exist.

    may_create: whether the broker may create the topic, if it does such a thing. A topic that has no leaders yet is
    asked for again until the deadline. Raises ApiError: INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED and other
    errors that no retry cures; ClientTimeout, Disconnected.
    """
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=may_create
    )
    attempts = 0
    while True:
        answer = cast("MetadataResponse", client.call(request, deadline_ms=deadline_ms))
        (described,) = answer.topics
        error = error_of(described.error_code)
        if error is ErrorCode.NONE:
            listed = sorted(described.partitions, key=lambda each: each.partition_index)
            return tuple(PartitionInfo.of(topic, each) for each in listed)
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ()
        if not error.retriable:
            raise ApiError(error, f"{error.message} Topic: {topic}")
        retry_ms = client.now_ms() + backoff.after(attempts)
        attempts += 1
        if retry_ms >= deadline_ms:
            raise client.metadata.timeout(f"Timeout expired while fetching the metadata of topic {topic}: {error.name}")
        while (left_ms := retry_ms - client.now_ms()) > 0:
            client.poll(left_ms)
