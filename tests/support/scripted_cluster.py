"""Brokers that keep batches in lists and answer clients through a ScriptedSelector: no sockets, no threads."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.consumer.consumer import Consumer
from barnabas.clients.metadata.cluster_metadata import MetadataConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.compression import Codec
from barnabas.records.memory_records import any_batches
from barnabas.records.record_batch_builder import RecordBatchBuilder
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.client_metadata import metadata_response
from tests.support.mock_clock import MockClock
from tests.support.scripted_selector import ScriptedSelector, SentRequest, all_versions


class ScriptedCluster:
    """`topics`: leaders by partition. `logs` maps (topic, partition) to encoded batches."""

    def __init__(self, topics: dict[str, Any], brokers: int = 1, extra: tuple[type[Message], ...] = ()) -> None:
        self.topics = topics
        self.brokers = brokers
        self.logs: dict[tuple[str, int], bytes] = defaultdict(bytes)
        self.errors: dict[tuple[str, int], list[ErrorCode]] = defaultdict(list)
        """Errors the next fetches and offset look-ups of a partition meet."""
        self.topic_ids: dict[str, bytes] = {}
        """The ids of topics that were created again; others have one made from their name."""
        self.epoch = 0
        """The leader epoch of every partition."""
        self.requests: list[SentRequest] = []
        self.extra = extra
        self.handlers: dict[int, Any] = {
            ApiKey.API_VERSIONS: lambda request: all_versions(
                MetadataRequest, FetchRequest, ListOffsetsRequest, *self.extra
            ),
            ApiKey.METADATA: self._metadata,
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
        }
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.selector.responder = self._respond
        self.selector.passes_time = True

    def client(self, config: NetworkClientConfig | None = None) -> BlockingClient:
        return BlockingClient(
            "127.0.0.1:9092",
            config or NetworkClientConfig(),
            MetadataConfig(),
            clock=self.clock,
            make_selector=lambda clock, *, max_idle_ms: self.selector,
            resolve=lambda host, port: (host,),
        )

    def sent(self, api_key: ApiKey) -> list[SentRequest]:
        return [request for request in self.requests if request.header.api_key == api_key]

    def topic_id(self, topic: str) -> bytes:
        return self.topic_ids.get(topic) or topic.encode().rjust(16, b"\1")

    def asked_topic(self, topic: FetchRequest.FetchTopic) -> str:
        """The name of a topic in a fetch, which has the name or the id, or "" for an unknown id."""
        ids = {self.topic_id(name): name for name in self.topics}
        return topic.topic or ids.get(topic.topic_id, "")

    def _metadata(self, request: SentRequest) -> Message:
        answer = metadata_response(self.topics, self.brokers, epoch=self.epoch)
        for topic in answer.topics:
            if topic.name is not None and not topic.error_code:
                topic.topic_id = self.topic_id(topic.name)
        return answer

    def _respond(self, request: SentRequest) -> Message | None:
        self.requests.append(request)
        handler = self.handlers.get(request.header.api_key)
        answer: Message | None = handler(request) if handler is not None else None
        return answer

    def _error(self, request: SentRequest, topic: str, partition: int) -> ErrorCode:
        errors = self.errors[topic, partition]
        if errors:
            return errors.pop(0)
        is_leader = str(self.topics[topic][partition]) == request.connection_id
        return ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _end(self, topic: str, partition: int) -> int:
        return max((batch.next_offset for batch in any_batches(self.logs[topic, partition])), default=0)

    def _fetch(self, request: SentRequest) -> FetchResponse | None:
        responses = []
        found = False
        for topic in request.body.topics:
            name = self.asked_topic(topic)
            partitions = []
            for asked in topic.partitions:
                error = self._error(request, name, asked.partition) if name else ErrorCode.UNKNOWN_TOPIC_ID
                log = self.logs[name, asked.partition]
                end = self._end(name, asked.partition)
                if not error and asked.fetch_offset > end:
                    error = ErrorCode.OFFSET_OUT_OF_RANGE
                kept = [batch for batch in any_batches(log) if batch.next_offset > asked.fetch_offset]
                records = (
                    b""
                    if error or not kept
                    else log[kept[0].position :][: max(asked.partition_max_bytes, kept[0].length)]
                )
                found = found or bool(records) or bool(error)
                partitions.append(
                    FetchResponse.PartitionData(
                        partition_index=asked.partition,
                        error_code=int(error),
                        high_watermark=end,
                        last_stable_offset=end,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=records,
                    )
                )
            responses.append(
                FetchResponse.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)
            )
        if not found and request.body.max_wait_ms:
            self.clock.advance(request.body.max_wait_ms)
        return FetchResponse(responses=responses)

    def _list_offsets(self, request: SentRequest) -> ListOffsetsResponse:
        topics = []
        for topic in request.body.topics:
            partitions = []
            for asked in topic.partitions:
                error = self._error(request, topic.name, asked.partition_index)
                offset = {-1: self._end(topic.name, asked.partition_index), -2: 0}.get(asked.timestamp, -1)
                timestamp = -1
                if asked.timestamp >= 0:
                    for batch in any_batches(self.logs[topic.name, asked.partition_index]):
                        for record in batch.records():
                            if record.timestamp >= asked.timestamp and offset < 0:
                                offset, timestamp = record.offset, record.timestamp
                partitions.append(
                    ListOffsetsResponse.ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=int(error), offset=offset, timestamp=timestamp
                    )
                )
            topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(topic.name, partitions))
        return ListOffsetsResponse(topics=topics)


TP0, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base: int, values: list[bytes], codec: Codec = Codec.NONE, **options: Any) -> bytes:
    builder = RecordBatchBuilder(codec, base_offset=base, **options)
    for index, value in enumerate(values):
        builder.append(1000 + base + index, b"k", value, [("h", b"x")])
    return builder.build()


def consumer_of(cluster: ScriptedCluster, *partitions: TopicPartition, **settings: Any) -> Consumer:
    consumer = Consumer("", client=cluster.client(), **{"auto_offset_reset": "earliest", **settings})
    consumer.assign(partitions)
    return consumer


VALUE = b"v" * 900


def batches(first: int, end: int) -> bytes:
    """One record of about a kilobyte in each batch."""
    made = b""
    for offset in range(first, end):
        builder = RecordBatchBuilder(base_offset=offset)
        builder.append(1000 + offset, None, VALUE)
        made += builder.build()
    return made
