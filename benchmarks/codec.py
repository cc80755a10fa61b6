"""Our codec against kio's and kafka-python's on the same messages, in one run: microseconds and ratios.

Run: `python -m benchmarks.codec`. Each cell is the least of several rounds, in which the systems take turns, so that
a noisy machine slows all of them alike. kio and kafka-python get what they like best: kio immutable bytes,
kafka-python its compiled functions with classes of its own.

Targets: decoding Produce takes at most 0.6 of kafka-python's time, encoding responses at most 0.3.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol import consumer, metadata, producer
from kafka.protocol.api_message import ApiMessage
from kio.index import load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from barnabas.protocol.headers import RequestHeader, response_frame
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse

_BATCH = bytes(16_384)
Timed = Callable[[], Any]


@dataclass(frozen=True)
class Cell:
    """One message: in which version, and whether it is read or written."""

    name: str
    message: Message
    version: int
    theirs: Any
    direction: str
    target: float | None = None


def _produce_request(partitions: int) -> ProduceRequest:
    data = [ProduceRequest.PartitionProduceData(number, _BATCH) for number in range(partitions)]
    return ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData("benchmark-topic", partition_data=data)])


def _produce_response(partitions: int) -> ProduceResponse:
    data = [ProduceResponse.PartitionProduceResponse(number, 0, 1000 + number) for number in range(partitions)]
    return ProduceResponse([ProduceResponse.TopicProduceResponse("benchmark-topic", partition_responses=data)])


def _fetch_request(partitions: int) -> FetchRequest:
    wanted = [FetchRequest.FetchPartition(number, fetch_offset=1000) for number in range(partitions)]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchRequest.FetchTopic("t", partitions=wanted)])


def _fetch_response(partitions: int) -> FetchResponse:
    data = [FetchResponse.PartitionData(number, 0, 1000, 1000, 0, records=_BATCH) for number in range(partitions)]
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse("benchmark-topic", partitions=data)])


def _metadata_response() -> MetadataResponse:
    brokers = [MetadataResponse.MetadataResponseBroker(node, f"broker-{node}", 9092) for node in range(3)]
    topics = [
        MetadataResponse.MetadataResponseTopic(
            0,
            f"topic-{topic}",
            partitions=[
                MetadataResponse.MetadataResponsePartition(0, number, number % 3, 1, [0, 1, 2], [0, 1, 2])
                for number in range(6)
            ],
        )
        for topic in range(10)
    ]
    return MetadataResponse(0, brokers, "cluster", 0, topics)


def _api_versions_response() -> ApiVersionsResponse:
    return ApiVersionsResponse(0, [ApiVersionsResponse.ApiVersion(key, 0, 9) for key in range(60)])


CELLS = [
    Cell("Produce v9, 1 x 16 KB", _produce_request(1), 9, producer.ProduceRequest, "decode", 0.6),
    Cell("Produce v9, 10 x 16 KB", _produce_request(10), 9, producer.ProduceRequest, "decode", 0.6),
    Cell("Fetch v12, 10 partitions", _fetch_request(10), 12, consumer.FetchRequest, "decode"),
    Cell("Metadata answer v9, 10 topics", _metadata_response(), 9, metadata.MetadataResponse, "decode"),
    Cell("Produce answer v9, 1", _produce_response(1), 9, producer.ProduceResponse, "encode", 0.3),
    Cell("Produce answer v9, 10", _produce_response(10), 9, producer.ProduceResponse, "encode", 0.3),
    Cell("Fetch answer v12, 1 x 16 KB", _fetch_response(1), 12, consumer.FetchResponse, "encode", 0.3),
    Cell("Fetch answer v12, 10 x 16 KB", _fetch_response(10), 12, consumer.FetchResponse, "encode", 0.3),
    Cell("Metadata answer v9, 10 topics", _metadata_response(), 9, metadata.MetadataResponse, "encode", 0.3),
    Cell("ApiVersions answer v3, 60 keys", _api_versions_response(), 3, metadata.ApiVersionsResponse, "encode", 0.3),
]


def _contestants(cell: Cell) -> dict[str, Timed]:
    """What each system does for a cell, ready to be called."""
    message, version = cell.message, cell.version
    body = b"".join(message.encode(version))
    kind: Any = EntityType.request if type(message).__name__.endswith("Request") else EntityType.response
    schema = load_entity_schema(_kio_name(message), version, kind)
    kio_read, kio_write = entity_reader(schema), entity_writer(schema)
    if cell.direction == "decode":
        decode = type(message).decoder(version)
        return {
            "barnabas": lambda: decode(body, 0),
            "kio": lambda: kio_read(body, 0),
            "kafka-python": lambda: cell.theirs.decode(body, version=version),
        }
    kio_entity, _ = kio_read(body, 0)
    theirs = cell.theirs.decode(body, version=version)
    theirs._header = None  # noqa: SLF001  kafka-python 3.0 forgets to set it
    assert bytes(ApiMessage.encode(theirs, version=version)) == body
    header = RequestHeader(message.api_key, version, 1, "benchmark", 2)

    def kio_encode() -> bytes:
        out = io.BytesIO()
        kio_write(out, kio_entity)
        return out.getvalue()

    return {
        "barnabas": lambda: response_frame(header, message),  # more than the others do: with prefix and header
        "kio": kio_encode,
        "kafka-python": lambda: theirs.encode(version=version),
    }


def _kio_name(message: Message) -> str:
    return message.api_key.name.lower()


def _microseconds(contestants: dict[str, Timed], rounds: int) -> dict[str, float]:
    """The least time of a call, over rounds in which the contestants take turns."""
    least = dict.fromkeys(contestants, float("inf"))
    repeats = {name: _repeats(call) for name, call in contestants.items()}
    for _ in range(rounds):
        for name, call in contestants.items():
            times = range(repeats[name])
            start = time.perf_counter_ns()
            for _ in times:
                call()
            least[name] = min(least[name], (time.perf_counter_ns() - start) / len(times) / 1000)
    return least


def _repeats(call: Timed) -> int:
    """How many calls take about two milliseconds: short enough to fall between two interruptions."""
    start = time.perf_counter_ns()
    for _ in range(20):
        call()
    return max(5, round(20 * 2_000_000 / (time.perf_counter_ns() - start)))


def main() -> None:
    """Measure every cell and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=60, help="turns per cell")
    rounds = parser.parse_args().rounds
    print(f"{'':42}{'barnabas':>9}{'kio':>9}{'kafka-py':>9}   ratio to kio, kafka-python   target")
    for cell in CELLS:
        least = _microseconds(_contestants(cell), rounds)
        ours, kio, kafka_python = least["barnabas"], least["kio"], least["kafka-python"]
        verdict = (
            ""
            if cell.target is None
            else f"<= {cell.target} {'ok' if ours <= cell.target * kafka_python else 'MISSED'}"
        )
        print(
            f"{cell.direction + ' ' + cell.name:42}{ours:9.2f}{kio:9.2f}{kafka_python:9.2f}"
            f"{ours / kio:16.2f}{ours / kafka_python:10.2f}    {verdict}"
        )


if __name__ == "__main__":
    main()
