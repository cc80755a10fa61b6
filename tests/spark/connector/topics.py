"""The topics of the comparison: every state that a log can be in, with the same offsets and times in every run.

Made once for a module by its fixture, on the main thread; no lock.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager

from barnabas.clients.admin import Admin, NewPartitions, NewTopic
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing import broker
from tests.spark.known_records import CODECS, made_up
from tests.support.transaction_markers import wait_for_markers

FIRST_MS = 1_700_000_000_000
"""The time of the first record; record `n` of a topic is `n` seconds younger."""
_SECONDS = 60.0
_KEEP = {"retention.ms": "-1"}
_COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "2000"}


def record_time_ms(index: int) -> int:
    """The timestamp of the record with this index in the order of production."""
    return FIRST_MS + 1_000 * index


class ComparedTopics:
    """Topics by the names that cases use. `prefix` keeps runs on one broker apart."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = f"same-{uuid.uuid4().hex[:8]}"
        self._admin = Admin(bootstrap_servers)
        self._with_open_transactions: list[Producer] = []

    def name(self, short: str) -> str:
        """The topic's name on the broker."""
        return f"{self.prefix}.{short}"

    def short(self, name: str) -> str:
        """The name that cases use."""
        return name.removeprefix(f"{self.prefix}.")

    def make(self, short_names: Iterable[str]) -> None:
        """Make those of the topics that are described here."""
        for short in sorted(set(short_names)):
            maker = _MAKERS.get(short)
            if maker is not None:
                maker(self, short)

    def create(self, short: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create an empty topic."""
        self._admin.create_topics([NewTopic(self.name(short), partitions, 1, _KEEP | dict(configs or {}))])

    def delete(self, short: str) -> None:
        """Delete a topic, and wait until the broker no longer lists it."""
        self._admin.delete_topics([self.name(short)])
        while self.name(short) in self._admin.list_topics():
            time.sleep(0.01)

    def create_again(self, short: str, partitions: int) -> None:
        """Delete a topic, and create an empty one of this name."""
        self.delete(short)
        while True:
            try:
                return self.create(short, partitions)
            except ApiError as error:
                # The name is taken until the last replica is deleted.
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
                time.sleep(0.01)

    def produce(self, short: str, partitions: int, indices: Iterable[int], codec: str = "none") -> None:
        """Produce records one after the other, so that index and partition decide the offset."""
        settings = {"compression_type": codec, "batch_size": 2_000, "linger_ms": 5}
        with Producer(self.bootstrap_servers, **settings) as producer:  # type: ignore[arg-type]
            for index in indices:
                key, value, headers = made_up(index)
                producer.send(self.name(short), value, key, headers, index % partitions, record_time_ms(index))
            producer.flush()

    def delete_before(self, short: str, offsets: Mapping[int, int]) -> None:
        """Delete the records before an offset of each partition."""
        self._admin.delete_records({TopicPartition(self.name(short), number): at for number, at in offsets.items()})

    def add_partitions(self, short: str, count: int) -> None:
        """Give the topic more partitions."""
        self._admin.create_partitions({self.name(short): NewPartitions(count)})

    def close(self) -> None:
        """Close the connections, and give up what is open."""
        for producer in self._with_open_transactions:
            producer.close()
        self._admin.close()

    # -- the makers

    def _plain(self, short: str) -> None:
        self.create(short, 3)
        for turn, codec in enumerate(CODECS):
            self.produce(short, 3, range(turn * 60, turn * 60 + 60), codec)

    def _codec(self, short: str) -> None:
        self.create(short, 1)
        self.produce(short, 1, range(40), short.removeprefix("codec-"))

    def _empty(self, short: str) -> None:
        self.create(short, 2)

    def _half(self, short: str) -> None:
        """Records in the first of two partitions."""
        self.create(short, 2)
        self.produce(short, 2, range(0, 40, 2))

    def _wide(self, short: str) -> None:
        self.create(short, 12)
        self.produce(short, 12, range(60))

    def _trimmed(self, short: str) -> None:
        """The first partition lacks its first 12 records."""
        self.create(short, 2)
        self.produce(short, 2, range(60))
        self.delete_before(short, {0: 12})

    def _emptied(self, short: str) -> None:
        """All records are deleted, and the log ends at offset 20."""
        self.create(short, 1)
        self.produce(short, 1, range(20))
        self.delete_before(short, {0: 20})

    def _recreated(self, short: str) -> None:
        """The second topic of this name has fewer records than the first."""
        self.create(short, 1)
        self.produce(short, 1, range(50))
        self.create_again(short, 1)
        self.produce(short, 1, range(100, 110))

    def _append_time(self, short: str) -> None:
        self.create(short, 1, {"message.timestamp.type": "LogAppendTime"})
        self.produce(short, 1, range(20))

    def _long(self, short: str) -> None:
        """Values from 0 to 300 kB: larger than a small fetch."""
        self.create(short, 1)
        with Producer(self.bootstrap_servers) as producer:
            for index in range(6):
                producer.send(self.name(short), bytes([index]) * (60_000 * index), b"k", (), 0, record_time_ms(index))
            producer.flush()

    def _nulls(self, short: str) -> None:
        """Records without key, value and headers."""
        self.create(short, 1)
        with Producer(self.bootstrap_servers) as producer:
            for index in range(10):
                producer.send(self.name(short), None, None, (), 0, record_time_ms(index))
            producer.flush()

    def _compacted(self, short: str) -> None:
        """Gaps between records, at the start too; a tombstone among what is left."""
        self.create(short, 1, _COMPACT)
        with Producer(self.bootstrap_servers, batch_size=1) as producer:
            for index in range(120):
                value = None if index == 100 else b"%03d" % index * 20
                producer.send(self.name(short), value, b"key-%d" % (index % 7), (), 0, record_time_ms(index))
                producer.flush()
        self._wait_until_compacted(short)

    def _wait_until_compacted(self, short: str) -> None:
        partition = TopicPartition(self.name(short), 0)
        previous = -1
        deadline = time.monotonic() + _SECONDS
        # Until two looks, with rounds of the cleaner between them, find the same gaps.
        while time.monotonic() < deadline:
            with Consumer(self.bootstrap_servers, auto_offset_reset="earliest") as consumer:
                consumer.assign([partition])
                end = consumer.end_offsets([partition])[partition]
                found = 0
                last = -1
                while last < end - 1:
                    records = consumer.poll(1_000)
                    found += len(records)
                    last = max((each.offset for each in records), default=last)
            if found == previous and found < 60:
                return
            previous = found
            time.sleep(1)
        raise AssertionError(f"{partition} was not compacted within {_SECONDS} s")

    def _transactions(self, short: str) -> None:
        """Committed and aborted transactions beside records without one; all have ended."""
        self.create(short, 2)
        self._write_transactions(short, "caca")

    def _only_aborted(self, short: str) -> None:
        self.create(short, 2)
        self._write_transactions(short, "aa")

    def _open(self, short: str) -> None:
        """The last transaction is open; records without a transaction follow."""
        self.create(short, 2)
        self._write_transactions(short, "ca")
        producer = self._transactional(short)
        self._with_open_transactions.append(producer)
        producer.begin_transaction()
        self._send(producer, short, range(200, 210))
        self.produce(short, 2, range(300, 306))

    def _transactional(self, short: str) -> Producer:
        producer = Producer(
            self.bootstrap_servers,
            transactional_id=f"{self.name(short)}-{uuid.uuid4().hex[:6]}",
            # An open transaction outlives the slowest run.
            transaction_timeout_ms=900_000,
        )
        producer.init_transactions()
        return producer

    def _write_transactions(self, short: str, ends: str) -> None:
        """One transaction for each letter: c commits, a aborts. Records without a transaction follow each."""
        partitions = [TopicPartition(self.name(short), number) for number in range(2)]
        with self._transactional(short) as producer:
            for turn, end in enumerate(ends):
                producer.begin_transaction()
                self._send(producer, short, range(turn * 20, turn * 20 + 9))
                producer.commit_transaction() if end == "c" else producer.abort_transaction()
                wait_for_markers(self.bootstrap_servers, partitions)
                if short == "transactions":
                    self.produce(short, 2, range(turn * 20 + 10, turn * 20 + 14))

    def _send(self, producer: Producer, short: str, indices: Iterable[int]) -> None:
        for index in indices:
            producer.send(self.name(short), b"in %d" % index, b"k", (), index % 2, record_time_ms(index))
        producer.flush()


_MAKERS: Mapping[str, Callable[[ComparedTopics, str], None]] = {
    "plain": ComparedTopics._plain,
    **{f"codec-{codec}": ComparedTopics._codec for codec in CODECS},
    "empty": ComparedTopics._empty,
    "half": ComparedTopics._half,
    "wide": ComparedTopics._wide,
    "trimmed": ComparedTopics._trimmed,
    "emptied": ComparedTopics._emptied,
    "recreated": ComparedTopics._recreated,
    "append-time": ComparedTopics._append_time,
    "long": ComparedTopics._long,
    "nulls": ComparedTopics._nulls,
    "compacted": ComparedTopics._compacted,
    "transactions": ComparedTopics._transactions,
    "only-aborted": ComparedTopics._only_aborted,
    "open": ComparedTopics._open,
}

EVERY_TOPIC = frozenset(_MAKERS)


@contextmanager
def compared_topics(names: Iterable[str]) -> Iterator[ComparedTopics]:
    """Run a broker with these topics."""
    with (
        broker(
            log_cleaner_backoff_ms=50, transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1
        ) as running,
        closing(ComparedTopics(running.bootstrap_servers)) as topics,
    ):
        topics.make(names)
        yield topics
