"""ListOffsets where a follower lags: what consumers may see after an election, and what others see."""

from __future__ import annotations

import pytest

from barnabas.api.apis import Apis
from barnabas.api.handlers.list_offsets import ListOffsetsApi
from barnabas.api.registry import Registry
from barnabas.api.request_parser import RequestParser
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.records.errors import CorruptRecord
from barnabas.storage.segment.index_file import CorruptIndex
from tests.support.recording_channel import RecordingChannel, connection
from tests.unit.replica.replica_harness import ANOTHER, US, Replicas
from tests.unit.storage.log_harness import NOW, batch

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONSUMER, DEBUGGING = -1, -2


class Broker:
    """Leads a partition of two replicas, the other of which has fetched nothing: three records, none committed."""

    def __init__(self) -> None:
        self.replicas = Replicas()
        self.replicas.lead(isr=(US, ANOTHER))
        self.replicas.append(("topic", 0, batch(3)))
        api = ListOffsetsApi(self.replicas.manager, self.replicas.clock, None)
        registry = Registry(api.handlers())
        self.parser = RequestParser(registry)
        self.apis = Apis(self.replicas.actions, lambda: 1)
        self.channel = RecordingChannel()

    def elect_again(self) -> None:
        self.replicas.lead(isr=(US, ANOTHER), leader_epoch=1, is_new=False)

    def ask(self, timestamp: int, version: int = 9, replica_id: int = CONSUMER) -> tuple[ErrorCode, int]:
        place = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=timestamp)
        body = ListOffsetsRequest(replica_id, 0, [ListOffsetsRequest.ListOffsetsTopic("topic", [place])])
        header = encode_request_header(ApiKey.LIST_OFFSETS, version, 1, "tester")
        frame = header + b"".join(map(bytes, body.encode(version)))
        self.apis.handle(self.parser.parse(frame, connection(), channel=self.channel, received_ns=1))
        found = self.channel.answer().topics[0].partitions[0]
        return ErrorCode(found.error_code), found.offset


def test_consumers_see_what_is_committed() -> None:
    broker = Broker()
    assert broker.ask(LATEST) == (ErrorCode.NONE, 0)
    assert broker.ask(NOW) == broker.ask(MAX_TIMESTAMP) == (ErrorCode.NONE, -1)
    for replica_id in (DEBUGGING, ANOTHER):
        assert broker.ask(LATEST, replica_id=replica_id) == (ErrorCode.NONE, 3)
        assert broker.ask(NOW, replica_id=replica_id) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("version", [1, 4, 5, 9])
def test_a_new_leader_does_not_tell_what_it_does_not_know(version: int) -> None:
    """KIP-207: its high watermark lies before the start of its epoch, so an answer might go back."""
    broker = Broker()
    broker.elect_again()
    refusal = ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE
    for timestamp in (LATEST, NOW):
        assert broker.ask(timestamp, version) == (refusal, -1)
    assert broker.ask(EARLIEST, version) == (ErrorCode.NONE, 0)
    assert broker.ask(LATEST, version, DEBUGGING) == (ErrorCode.NONE, 3)
    broker.replicas.partition().log.raise_high_watermark_to_end()
    assert broker.ask(LATEST, version) == (ErrorCode.NONE, 3)


def test_damage_on_disk_is_the_partitions_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    for raised, code in (
        (CorruptRecord("damaged"), ErrorCode.CORRUPT_MESSAGE),
        (CorruptIndex("damaged"), ErrorCode.CORRUPT_MESSAGE),
        (RuntimeError("a defect"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ):

        def fail(*_: object, error: Exception = raised) -> None:
            raise error

        monkeypatch.setattr("barnabas.storage.log.unified_log.find_offset", fail)
        assert broker.ask(NOW) == (code, -1)
        assert broker.ask(LATEST) == (ErrorCode.NONE, 0)
