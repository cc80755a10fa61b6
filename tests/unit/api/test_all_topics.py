"""Metadata of all topics: encoded once an image, listener and version, and much of it never on a network thread."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.api.brief import BUDGET_US, METADATA_PARTITION_US, NeedsHandlerThread
from barnabas.api.handlers.metadata import MetadataApi
from barnabas.api.request import ConnectionContext, Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.metadata.metadata_image import BrokerMetadata, MetadataImage, PartitionMetadata, TopicMetadata
from barnabas.protocol.headers import RequestHeader, request_header_version
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.recording_channel import RecordingChannel

VERSIONS = range(MetadataRequest.min_version, MetadataRequest.max_version + 1)


def image_of(*topics: str, partitions: int = 2) -> MetadataImage:
    endpoints = {"PLAINTEXT": ("inside", 9092), "OUTSIDE": ("outside", 9093)}
    states = tuple(PartitionMetadata(number, 0, 4, (0,), (0,), (), 1) for number in range(partitions))
    known = {name: TopicMetadata(name, name.encode().ljust(16), states) for name in topics}
    return MetadataImage(7, "cluster", 0, {0: BrokerMetadata(0, 1, None, endpoints)}, known)


class Throttle:
    """Tells every client to wait."""

    def charge(self, request: Request[Any], response: Any) -> None:
        response.throttle_time_ms = 123


class Metadata:
    """The handler over an image, and what it answered."""

    def __init__(self, image: MetadataImage) -> None:
        self.cache = MetadataCache(0)
        self.cache.image = image
        self.api = MetadataApi(self.cache, None, lambda: False, None)  # type: ignore[arg-type]  # nothing is created here
        (self.handler,) = self.api.handlers()
        self.channel = RecordingChannel()

    def ask(self, version: int, listener: str = "PLAINTEXT", *, brief: bool = False, **body: Any) -> MetadataResponse:
        header = RequestHeader(3, version, 9, "client", request_header_version(3, version))
        topics: list[Any] | None = [] if version == 0 else None
        context = ConnectionContext("connection", "127.0.0.1", listener, "PLAINTEXT")
        request = Request(
            header,
            MetadataRequest(**({"topics": topics} | body)),
            self.handler,
            context,
            self.channel,
            received_ns=0,
            brief=brief,
        )
        self.api.metadata(request)
        answer: MetadataResponse = self.channel.answer()
        return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answer_kept_is_the_answer(version: int) -> None:
    metadata = Metadata(image_of("a", "b"))
    first = metadata.ask(version)
    assert [topic.name for topic in first.topics] == ["a", "b"]
    assert metadata.ask(version) == first
    assert metadata.channel.frames[0] == metadata.channel.frames[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_throttle_time_is_of_the_request(version: int) -> None:
    metadata = Metadata(image_of("a"))
    unthrottled = metadata.ask(version)
    metadata.handler.throttle = Throttle()  # type: ignore[assignment]
    throttled = metadata.ask(version)
    assert throttled.throttle_time_ms == (123 if version >= 3 else 0)
    metadata.handler.throttle = None
    assert metadata.ask(version) == unthrottled
    throttled.throttle_time_ms = 0
    assert throttled == unthrottled


def test_listeners_and_operations_have_their_own() -> None:
    metadata = Metadata(image_of("a"))
    for _ in range(2):
        assert metadata.ask(9).brokers[0].host == "inside"
        assert metadata.ask(9, "OUTSIDE").brokers[0].host == "outside"
        assert metadata.ask(9).topics[0].topic_authorized_operations < 0
        asked = metadata.ask(9, include_topic_authorized_operations=True)
        assert asked.topics[0].topic_authorized_operations > 0
        assert metadata.ask(9, include_cluster_authorized_operations=True).cluster_authorized_operations > 0


def test_another_image_has_another_answer() -> None:
    metadata = Metadata(image_of("a"))
    assert len(metadata.ask(12).topics) == 1
    metadata.cache.image = image_of("a", "b")
    assert len(metadata.ask(12).topics) == 2


def test_much_is_told_by_a_handler() -> None:
    metadata = Metadata(image_of("a", "b", partitions=BUDGET_US // METADATA_PARTITION_US // 2 + 1))
    names = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("a", "b")]
    with pytest.raises(NeedsHandlerThread):
        metadata.ask(12, brief=True)
    with pytest.raises(NeedsHandlerThread):
        metadata.ask(12, brief=True, topics=names)
    assert len(metadata.ask(12, brief=True, topics=names[:1]).topics) == 1
    assert len(metadata.ask(12, topics=names).topics) == 2
    metadata.ask(12)
    assert len(metadata.ask(12, brief=True).topics) == 2  # what is encoded already is little work
