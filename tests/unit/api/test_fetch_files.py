"""Every file range that was read is given back exactly once, whatever becomes of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.fetch.fetch_answer import FetchAnswer
from barnabas.api.handlers.fetch import FetchApi
from barnabas.api.registry import Registry
from barnabas.api.request import Request
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.records.compression import Codec
from barnabas.records.file_records import FileRecords
from barnabas.records.lazy_down_conversion import LazyDownConversionRecords
from tests.support.broker_origins import broker_origin
from tests.support.fetch_sessions import fetch_sessions
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.replica.replica_harness import Replicas
from tests.unit.storage.log_harness import Broker as LogBroker
from tests.unit.storage.log_harness import batch, log_config


class HoldingChannel(RecordingChannel):
    """Keeps the pieces of an answer unread, as a Processor does until it sends them."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[Any] = []

    def send(self, request: Request[Any], frame: Sequence[Any]) -> None:
        self.pieces += frame
        super().send(request, [bytes(len(piece)) for piece in frame])

    def release_all(self) -> None:
        for piece in self.pieces:
            if isinstance(piece, FileRecords | LazyDownConversionRecords):
                piece.release()
        self.pieces.clear()


class Broker:
    """Two partitions with a batch each."""

    def __init__(self, codec: Codec = Codec.NONE, **settings: object) -> None:
        self.replicas = Replicas(LogBroker(config=log_config(**settings)))
        for partition in range(2):
            self.replicas.lead(partition=partition)
            self.replicas.append(("topic", partition, batch(3, codec=codec)))
            self.replicas.announce("topic", partition, 0)
        self.api = FetchApi(
            self.replicas.manager, self.replicas.metadata, fetch_sessions(), 1 << 20, MockClock(), None, broker_origin()
        )
        registry = Registry(self.api.handlers())
        self.parser = RequestParser(registry)
        self.apis = Apis(self.replicas.actions, lambda: 1)
        self.channel = HoldingChannel()

    @property
    def borrowed(self) -> int:
        """Who holds the partitions' files, beside their segments."""
        count = 0
        for partition in range(2):
            file = self.replicas.partition(partition=partition).log.local.segments.active.file.borrow()
            count += file._holders - 2
            file.release()
        return count

    def fetch(self, version: int, *offsets: int, **fields: int) -> None:
        places = [
            FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in enumerate(offsets)
        ]
        body = FetchRequest(
            min_bytes=1, max_bytes=1 << 20, topics=[FetchRequest.FetchTopic("topic", partitions=places)]
        )
        for name, value in fields.items():
            setattr(body, name, value)
        frame = encode_request_header(ApiKey.FETCH, version, 1, "tester") + b"".join(map(bytes, body.encode(version)))
        self.apis.handle(self.parser.parse(frame, connection(), channel=self.channel, received_ns=1))


@pytest.mark.parametrize("version", [0, 3, 4, 12])
def test_an_answer_holds_them_until_it_is_sent(version: int) -> None:
    broker = Broker()
    broker.fetch(version, 0, 0)
    assert broker.borrowed == 2
    broker.channel.release_all()
    assert broker.borrowed == 0


def test_a_long_poll_holds_none() -> None:
    broker = Broker()
    broker.fetch(12, 0, 3, min_bytes=1 << 20, max_wait_ms=500)
    assert (broker.channel.pieces, broker.borrowed) == ([], 0)
    broker.replicas.pass_time(500)
    assert broker.borrowed == 1
    broker.channel.release_all()
    assert broker.borrowed == 0


@pytest.mark.parametrize(
    ("version", "codec", "settings"),
    [
        (3, Codec.ZSTD, {}),
        (9, Codec.NONE, {"compression_type": "zstd"}),
        (3, Codec.NONE, {"message_downconversion_enable": "false"}),
    ],
)
def test_what_an_old_version_may_not_have_is_given_back(version: int, codec: Codec, settings: dict[str, str]) -> None:
    broker = Broker(codec, **settings)
    broker.fetch(version, 0, 0)
    assert broker.borrowed == 0
    assert len(broker.channel.frames) == 1


@pytest.mark.parametrize("min_bytes", [1, 1 << 20], ids=["at once", "after a wait"])
@pytest.mark.interpreted
def test_an_answer_that_cannot_be_made_gives_them_back(monkeypatch: pytest.MonkeyPatch, min_bytes: int) -> None:
    broker = Broker()

    def fail(*_: Any) -> FetchResponse:
        raise RuntimeError("a defect")

    monkeypatch.setattr(FetchAnswer, "_response", fail)
    broker.fetch(12, 0, 0, min_bytes=min_bytes, max_wait_ms=500)
    broker.replicas.pass_time(500)
    assert broker.borrowed == 0
    assert len(broker.channel.frames) == 1
