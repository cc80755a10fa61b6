"""What a broker leaves on the disk, judged by Apache Kafka's own tool."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.v2.walk import Record
from tests.support.apache_kafka import dump_log_segments, need_apache_kafka
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import MODES, Server

STAMP = 1_700_000_000_000


def _fill(server: Server, topic: str, time_type: str) -> int:
    """Batches of all codecs and formats over several segments; the number of records."""
    settings = {"segment.bytes": "16384", "index.interval.bytes": "1024", "message.timestamp.type": time_type}
    count, chance = 0, random.Random(3)
    with RawClient(server) as client:
        client.create_topic(topic, configs=settings)
        for number in range(40):
            codec = Codec(number % len(Codec))
            values = [chance.randbytes(100).hex().encode() for _ in range(number % 7 + 1)]
            state = {"producer_id": 7, "producer_epoch": 0, "base_sequence": count // 2}
            batch = make_batch(values, codec, STAMP + number * 100, **state)
            assert client.produce(topic, batch).error_code == ErrorCode.NONE
            old = [
                Record(offset, STAMP + number * 100 + offset, b"key", value, ()) for offset, value in enumerate(values)
            ]
            magic, old_codec = number % 2, Codec(number % 4)
            message_set = encode_message_set(magic, old, old_codec)
            assert client.produce(topic, message_set, 1 + magic).error_code == ErrorCode.NONE
            count += 2 * len(values)
        assert client.end_offset(topic) == count
    return count


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("time_type", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("end", ["stop", "kill", "restart after kill"])
@pytest.mark.parametrize("own_server", MODES, indirect=True)
def test_dump_log_segments(own_server: Server, end: str, time_type: str, tmp_path: Path) -> None:
    need_apache_kafka()
    own_server.start()
    count = _fill(own_server, "topic", time_type)
    if end == "stop":
        own_server.stop()
    else:
        own_server.kill()
    if end == "restart after kill":
        own_server.start()
        own_server.stop()
    partition = own_server.data_dir / "topic-0"
    segments = sorted(partition.glob("*.log"))
    indexes = sorted([*partition.glob("*.index"), *partition.glob("*.timeindex")])
    assert len(segments) > 2
    # after a kill, the index of the active segment may not have been written yet: recovery makes it
    assert len(indexes) == 2 * len(segments) or (end == "kill" and len(indexes) == 2 * (len(segments) - 1))

    dumped = dump_log_segments(segments, "--deep-iteration", "--print-data-log", directory=tmp_path)
    assert sum(line.startswith("| offset: ") for line in dumped.lines) == count
    assert dumped.complaints == []
    for check in ("--verify-index-only", "--index-sanity-check"):
        assert dump_log_segments(indexes, check, directory=tmp_path).complaints == []
