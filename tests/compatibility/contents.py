"""What the compatibility tests put into a broker, ours or Apache Kafka: every kind of batch, over many small segments.

Everything random comes from a seed, so that two brokers can be given the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.records.compression import Codec
from barnabas.records.record_batch_builder import RecordBatchBuilder
from tests.support.apache_kafka import ApacheKafka
from tests.support.raw_client import RawClient
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

STAMP = 1_700_000_000_000
NOW = int(time.time() * 1000)
"""For idempotent producers, whose state is forgotten a day after the last record's time."""
KEEP = {"retention.ms": "-1", "segment.bytes": "16384", "index.interval.bytes": "512"}

CODECS, APPEND_TIME, IDEMPOTENT, COMPACTED, CLIENTS = "codecs", "append-time", "idempotent", "compacted", "clients"
TRANSACTIONS = "transactions"
PARTITIONS = {CODECS: 1, APPEND_TIME: 1, IDEMPOTENT: 2, COMPACTED: 1, CLIENTS: 2, TRANSACTIONS: 2}
CONFIGS: Mapping[str, Mapping[str, str]] = {
    CODECS: KEEP,
    APPEND_TIME: KEEP | {"message.timestamp.type": "LogAppendTime"},
    IDEMPOTENT: KEEP | {"segment.bytes": "4096"},
    COMPACTED: KEEP
    | {
        "cleanup.policy": "compact",
        "segment.bytes": "4096",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "86400000",
    },
    CLIENTS: KEEP,
    TRANSACTIONS: KEEP | {"segment.bytes": "4096"},
}
BROKER_PROPERTIES = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "zookeeper.session.timeout.ms": "4000",
}
"""For either broker; ours takes settings of ZooKeeper without needing them."""


def fill(server: ServerProcess, seed: int = 1) -> None:
    """Create the topics that need no coordinator, and fill them."""
    chance = random.Random(seed)
    with RawClient(server) as client:
        for topic in (CODECS, APPEND_TIME, IDEMPOTENT, COMPACTED):
            client.create_topic(topic, PARTITIONS[topic], CONFIGS[topic])
        fill_codecs(client, CODECS, chance)
        fill_codecs(client, APPEND_TIME, chance)
        fill_idempotent(client, chance)
        fill_compacted(client, COMPACTED, chance)


def produce(client: RawClient, topic: str, batch: bytes, partition: int = 0) -> int:
    """Produce a batch that must be taken; its base offset."""
    result = client.produce(topic, batch, partition=partition)
    assert result.error_code == ErrorCode.NONE, (topic, result)
    return result.base_offset


def fill_codecs(client: RawClient, topic: str, chance: random.Random, batches: int = 60) -> None:
    """Batches of all codecs, with and without keys, values and headers, their timestamps not always rising."""
    for number in range(batches):
        builder = RecordBatchBuilder(Codec(number % len(Codec)))
        for _ in range(chance.randint(1, 12)):
            key = None if chance.random() < 0.3 else chance.randbytes(chance.randint(0, 6)).hex().encode()
            value = None if chance.random() < 0.1 else chance.randbytes(chance.randint(0, 90)).hex().encode()
            headers = [(f"h{each}", chance.choice((None, b"", b"value"))) for each in range(chance.randint(0, 3))]
            builder.append(STAMP + number * 1000 + chance.randint(-3000, 3000), key, value, headers)
        produce(client, topic, builder.build())


def fill_idempotent(client: RawClient, chance: random.Random, batches: int = 40, topic: str = IDEMPOTENT) -> None:
    """Three producers take turns on two partitions."""
    producers = [_init_producer_id(client) for _ in range(3)]
    sequences = dict.fromkeys([(index, partition) for index in range(3) for partition in range(2)], 0)
    for number in range(batches):
        index, partition = chance.randrange(3), chance.randrange(2)
        producer_id, epoch = producers[index]
        builder = RecordBatchBuilder(
            Codec(number % len(Codec)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequences[index, partition],
        )
        count = chance.randint(1, 10)
        for each in range(count):
            builder.append(NOW + number * 100 + each, b"k%d" % each, chance.randbytes(60).hex().encode())
        produce(client, topic, builder.build(), partition)
        sequences[index, partition] += count


def _init_producer_id(client: RawClient) -> tuple[int, int]:
    deadline = time.monotonic() + 30
    while True:
        answer = client.call(InitProducerIdRequest(None, 60_000), 1, InitProducerIdResponse)
        if answer.error_code == ErrorCode.NONE:
            return answer.producer_id, answer.producer_epoch
        # a Kafka that has just started has no block of ids yet
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, answer
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fill_compacted(client: RawClient, topic: str, chance: random.Random, batches: int = 80, start: int = STAMP) -> None:
    """Twenty keys again and again, some of them deleted at times, and some keys that come only once.

    These keep the cleaner from emptying a segment: Kafka 3.9 finds no offset by time in a log with an empty segment.
    """
    for number in range(batches):
        builder = RecordBatchBuilder(Codec(number % len(Codec)))
        if number % 8 == 0:
            builder.append(start + number * 1000, b"only-%d" % number, b"value")
        for each in range(chance.randint(1, 6)):
            value = None if chance.random() < 0.15 else chance.randbytes(chance.randint(5, 60)).hex().encode()
            builder.append(
                STAMP + number * 1000 + each, b"key-%d" % chance.randrange(20), value, [("n", b"%d" % number)]
            )
        produce(client, topic, builder.build())


def fill_by_clients(server: ServerProcess) -> None:
    """What librdkafka writes: idempotent, each codec, headers, over two partitions."""
    from confluent_kafka import Producer

    with RawClient(server) as client:
        client.create_topic(CLIENTS, PARTITIONS[CLIENTS], CONFIGS[CLIENTS])
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 5,
            }
        )
        for number in range(60):
            producer.produce(
                CLIENTS,
                key=f"{codec}-{number}",
                value=f"value {number} " * 5,
                headers=[("codec", codec.encode()), ("empty", None)],
                partition=number % 2,
                timestamp=NOW + number,
            )
        assert producer.flush(30) == 0


def fill_transactions(
    server: ServerProcess,
    topic: str = TRANSACTIONS,
    *,
    partitions: int = 2,
    configs: Mapping[str, str] | None = None,
    leave_open: bool = True,
    turns: int = 24,
) -> None:
    """Committed, aborted and still open transactions of two producers, over partitions and small segments."""
    from confluent_kafka import Producer

    with RawClient(server) as client:
        client.create_topic(topic, partitions, configs or CONFIGS[TRANSACTIONS])
    producers = [
        Producer(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "transactional.id": f"{topic}-{index}",
                "transaction.timeout.ms": 600_000,
                "linger.ms": 0,
            }
        )
        for index in range(2)
    ]
    for producer in producers:
        producer.init_transactions(30)
    chance = random.Random(5)
    for turn in range(turns):
        for producer in producers:
            producer.begin_transaction()
        for number in range(8):
            chance.choice(producers).produce(
                topic,
                key=f"{turn % 4}-{number}",
                value=f"{turn} " * 20,
                partition=number % partitions,
                timestamp=NOW + turn * 100 + number,
            )
            for producer in producers:
                producer.flush(30)
        for index, producer in enumerate(producers):
            if (turn + index) % 3 == 0:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)
    if leave_open:
        producers[0].begin_transaction()
        producers[0].produce(topic, key="open", value="for ever", partition=0)
        producers[0].flush(30)


def commit_some_offsets(server: ServerProcess, group: str = "group") -> None:
    """A group of clients commits offsets: records in `__consumer_offsets`."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group})
    for number in range(5):
        consumer.commit(offsets=[TopicPartition(CODECS, 0, number)], asynchronous=False)
    consumer.close()


def cleaner_checkpoint(data_dir: Path) -> dict[str, int]:
    """Up to which offset partition 0 of each topic has been cleaned."""
    path = data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    entries = (line.split() for line in lines)
    return {topic: int(offset) for topic, partition, offset in entries if partition == "0"}


def active_segment(data_dir: Path, topic: str) -> int:
    """The base offset of the active segment of partition 0."""
    return max(int(path.stem) for path in (data_dir / f"{topic}-0").glob("*.log"))


def wait_until_cleaned(data_dir: Path, *topics: str, timeout_seconds: float = 60) -> None:
    """Return when the cleaner has been through all but the active segments of partitions 0."""
    wanted = {topic: active_segment(data_dir, topic) for topic in topics}
    wait_until(lambda: cleaner_checkpoint(data_dir), timeout_seconds, lambda found: wanted.items() <= found.items())


@contextmanager
def filled(broker: ApacheKafka) -> Iterator[None]:
    """Run a broker that has all contents, cleaned where they are compacted; it ends with the block."""
    try:
        broker.start()
        fill(broker)
        fill_by_clients(broker)
        fill_transactions(broker)
        wait_until_cleaned(broker.data_dir, COMPACTED)
        yield
    finally:
        broker.close()
