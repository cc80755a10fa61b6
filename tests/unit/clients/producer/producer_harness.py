"""A Sender, and a whole Producer, on scripted connections: no socket, no thread."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

from barnabas.clients.metadata.cluster_metadata import ClusterMetadata, MetadataConfig
from barnabas.clients.metadata.metadata_updater import ClusterMetadataUpdater
from barnabas.clients.producer import Producer
from barnabas.clients.producer.accumulator.buffer_pool import BufferPool
from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.sequence_numbers import SequenceNumbers
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.clients.producer.producer_record import ProducerRecord
from barnabas.clients.producer.sending.sender import Sender
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.records.record_batch import RecordBatch
from barnabas.rpc.connection_states import Node
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.network_client_config import NetworkClientConfig
from tests.support.client_metadata import metadata_response
from tests.support.mock_clock import MockClock
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_selector import ScriptedSelector, SentRequest, all_versions


class SenderSetting:
    """A sender whose metadata requests are answered; produce requests wait in `selector.sent`."""

    def __init__(self, leaders: Any = (0,), brokers: int = 1, **config: Any) -> None:
        self.config = ProducerConfig(**config)
        self.clock = MockClock()
        self.selector = ScriptedSelector(self.clock)
        self.selector.responder = self.respond
        self.leaders = leaders
        self.brokers = brokers
        self.metadata_requests = 0
        self.producer_ids = 0
        self.producer_id_error = 0
        self.metadata = ClusterMetadata([Node(-1, "boot", 1)], MetadataConfig())
        updater = ClusterMetadataUpdater(self.metadata)
        self.client = NetworkClient(
            self.selector,
            updater,
            NetworkClientConfig(max_in_flight=self.config.max_in_flight_requests_per_connection),
            self.clock,
            resolve=lambda host, port: (host,),
        )
        sequences = SequenceNumbers() if self.config.is_idempotent else None
        self.accumulator = RecordAccumulator(self.config, BufferPool(1 << 25), Random(1), sequences)
        self.sender = Sender(self.client, self.metadata, self.accumulator, self.config, sequences)
        self.metadata.add_topic("t", 0)
        self.turns(8)

    def respond(self, request: SentRequest) -> Any:
        if request.header.api_key == ApiKey.API_VERSIONS:
            return all_versions(MetadataRequest, ProduceRequest, InitProducerIdRequest)
        if request.header.api_key == ApiKey.METADATA:
            self.metadata_requests += 1
            return metadata_response({"t": self.leaders}, self.brokers, epoch=self.metadata_requests)
        if request.header.api_key == ApiKey.INIT_PRODUCER_ID:
            self.producer_ids += 1
            return InitProducerIdResponse(
                error_code=self.producer_id_error, producer_id=100 + self.producer_ids, producer_epoch=0
            )
        return None

    def turns(self, count: int = 4) -> None:
        for _ in range(count):
            self.sender.run_once()

    def append(self, value: bytes = b"v", partition: int = 0) -> Any:
        return self.accumulator.append(
            "t",
            partition,
            ProducerRecord(1, None, value, (), len(value) + 32),
            self.metadata.cluster,
            max_block_ms=0,
            now=self.client.now_ms,
        )[0]

    def answer_each(self, errors: dict[int, ErrorCode]) -> None:
        """Answer the oldest request, with the errors of some partitions."""
        request = self.selector.take()
        answers = [
            ProduceResponse.PartitionProduceResponse(index=data.index, error_code=int(errors.get(data.index, 0)))
            for data in request.body.topic_data[0].partition_data
        ]
        topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=answers)
        self.selector.answer(request, ProduceResponse(responses=[topic]))
        self.turns(3)

    def answer(
        self, error: ErrorCode = ErrorCode.NONE, base_offset: int = 0, message: str | None = None, **more: Any
    ) -> SentRequest:
        request = self.selector.take()
        assert request.header.api_key == ApiKey.PRODUCE
        responses = [
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    ProduceResponse.PartitionProduceResponse(
                        index=data.index, error_code=int(error), base_offset=base_offset, error_message=message, **more
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.body.topic_data
        ]
        self.selector.answer(request, ProduceResponse(responses=responses))
        self.turns(3)
        return request


class WaitingSelector(ScriptedSelector):
    """Rests between polls that find nothing, until it is woken, as a real one does."""

    def __init__(self, clock: MockClock) -> None:
        super().__init__(clock)
        self._woken = threading.Event()

    def poll(self, timeout_ms: float) -> None:
        super().poll(timeout_ms)
        if not (self.connected or self.disconnected or self.completed_sends or self.completed_receives or self.sent):
            self._woken.wait(min(timeout_ms, 20) / 1000)
            self._woken.clear()

    def wakeup(self) -> None:
        self._woken.set()


class ProducerSetting:
    def __init__(self) -> None:
        self.cluster = ScriptedCluster({"t": [0, 0, 0]}, extra=(ProduceRequest, InitProducerIdRequest))
        self.cluster.handlers[ApiKey.PRODUCE] = self.produce
        self.cluster.handlers[ApiKey.INIT_PRODUCER_ID] = lambda request: InitProducerIdResponse(
            producer_id=100, producer_epoch=0
        )
        self.selector = WaitingSelector(self.cluster.clock)
        self.selector.responder = self.cluster._respond
        self.selector.passes_time = True
        self.stored: dict[int, list[Any]] = {}
        self.producers: list[Producer] = []

    def produce(self, request: SentRequest) -> ProduceResponse:
        answers = []
        for data in request.body.topic_data[0].partition_data:
            log = self.stored.setdefault(data.index, [])
            base = sum(batch.count for batch in log)
            log.append(RecordBatch(bytes(data.records)))
            answers.append(ProduceResponse.PartitionProduceResponse(index=data.index, base_offset=base))
        name = request.body.topic_data[0].name
        return ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(name=name, partition_responses=answers)])

    def producer(self, **settings: Any) -> Producer:
        producer = Producer(
            "127.0.0.1:9092",
            clock=self.cluster.clock,
            random=Random(1),
            make_selector=lambda clock, *, max_idle_ms: self.selector,
            **settings,
        )
        self.producers.append(producer)
        return producer
