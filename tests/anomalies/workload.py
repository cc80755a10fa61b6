"""Producers that write transactions, and readers of committed records, until they have a history for the checker.

Used by test_transactions.py. Each producer and each reader has a thread, which alone writes its lists; they are read
after its end. Two libraries read: ours and confluent-kafka.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final, NamedTuple

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from barnabas.clients.consumer import Consumer
from barnabas.clients.errors import TransactionAbortable
from barnabas.clients.producer import Producer
from barnabas.protocol.topic_partition import TopicPartition
from tests.anomalies.history import Append, History, Outcome, Read, Seen, Transaction

PARTITIONS: Final = 3
PRODUCERS: Final = 3
MAX_APPENDS: Final = 6
ABORTED_SHARE: Final = 0.3
OPEN_SECONDS: Final = 0.01
"""At most so long a transaction stays open behind its last record."""
END_SECONDS: Final = 300
_POLL_MS: Final = 100

clock: Final = time.monotonic
Values = Iterator[int]


class Appender:
    """Writes transactions of a few records to all partitions, and ends some of them by an abort."""

    def __init__(self, bootstrap: str, topic: str, name: str, values: Values, seed: int) -> None:
        self._bootstrap, self._topic, self._name = bootstrap, topic, name
        self._values = values
        self._chance = random.Random(seed)
        self.transactions: list[Transaction] = []
        self.failures: list[Exception] = []

    def run(self, is_stopping: threading.Event) -> None:
        """Write until it is time to stop; a producer that fails is replaced, which ends its transaction."""
        is_clean = False
        while not (is_clean and is_stopping.is_set()):
            producer = Producer(self._bootstrap, transactional_id=self._name, linger_ms=0, max_block_ms=60_000)
            try:
                producer.init_transactions()
                is_clean = True
                while not is_stopping.is_set():
                    is_clean = False
                    self._write(producer)
                    is_clean = True
            except Exception as failure:  # noqa: BLE001 - whatever it is, another producer comes
                self.failures.append(failure)
            finally:
                producer.abort()

    def _write(self, producer: Producer) -> None:
        count = self._chance.randint(1, MAX_APPENDS)
        appends = tuple(Append(self._chance.randrange(PARTITIONS), next(self._values)) for _ in range(count))
        began_at = clock()
        sent_at, ended_at, outcome = None, None, Outcome.ABORTED
        try:
            producer.begin_transaction()
            for append in appends:
                producer.send(self._topic, b"%d" % append.value, partition=append.partition)
            producer.flush()
            time.sleep(self._chance.random() * OPEN_SECONDS)
            if self._chance.random() >= ABORTED_SHARE:
                sent_at, outcome = clock(), Outcome.UNKNOWN
                producer.commit_transaction()
                outcome = Outcome.COMMITTED
            else:
                producer.abort_transaction()
            ended_at = clock()
        except TransactionAbortable:
            producer.abort_transaction()
            sent_at, ended_at, outcome = None, clock(), Outcome.ABORTED
        finally:
            name = f"{self._name}/{len(self.transactions)}"
            self.transactions.append(Transaction(name, appends, outcome, began_at, sent_at, ended_at))


class Record(NamedTuple):
    """A record that a reader's poll returned."""

    partition: int
    offset: int
    value: int


class Reader(ABC):
    """Reads all partitions from their begin to wherever its caller stops."""

    name: str

    def __init__(self) -> None:
        self.seen: list[list[Seen]] = [[] for _ in range(PARTITIONS)]

    @abstractmethod
    def poll(self) -> Sequence[Record]:
        """Return the next records."""

    @abstractmethod
    def positions(self) -> Sequence[int]:
        """Return the offset behind all that was read, markers included, of each partition."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""

    def run(self, is_stopping: threading.Event) -> None:
        """Read until it is time to stop."""
        while not is_stopping.is_set():
            self.read_some()

    def read_some(self) -> None:
        """Note the records of one poll."""
        for record in self.poll():
            self.seen[record.partition].append(Seen(record.offset, record.value, clock()))


class BarnabasReader(Reader):
    """Our consumer."""

    name = "barnabas"

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        self._consumer = Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
        self._consumer.assign(self._places)

    def poll(self) -> Sequence[Record]:
        return [
            Record(found.partition, found.offset, int(found.value or b"")) for found in self._consumer.poll(_POLL_MS)
        ]

    def positions(self) -> Sequence[int]:
        return [self._consumer.position(place) for place in self._places]

    def close(self) -> None:
        self._consumer.close()


class ConfluentReader(Reader):
    """librdkafka's consumer. It does not tell of markers, so its positions are those behind the last end it has met."""

    name = "confluent-kafka"

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._ends = [0] * PARTITIONS
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
            }
        )
        self._consumer.assign([ConfluentPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def poll(self) -> Sequence[Record]:
        records = []
        for message in self._consumer.consume(100, _POLL_MS / 1000):
            partition, offset, error = message.partition(), message.offset(), message.error()
            if partition is None or offset is None:
                continue  # the broker is down
            if error is None:
                records.append(Record(partition, offset, int(message.value() or b"")))
            elif error.name() == "_PARTITION_EOF":
                self._ends[partition] = offset
        return records

    def positions(self) -> Sequence[int]:
        return self._ends

    def close(self) -> None:
        self._consumer.close()


class Workload:
    """Producers and readers of one topic, whose threads run inside `running`."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        values = itertools.count()
        self._bootstrap, self._topic = bootstrap, topic
        self._producers_stop, self._readers_stop = threading.Event(), threading.Event()
        self.appenders = [Appender(bootstrap, topic, f"{topic}-{n}", values, seed + n) for n in range(PRODUCERS)]
        self.readers: list[Reader] = [BarnabasReader(bootstrap, topic), ConfluentReader(bootstrap, topic)]

    @property
    def transaction_count(self) -> int:
        """The number of transactions so far."""
        return sum(len(appender.transactions) for appender in self.appenders)

    def run(self, meanwhile: Callable[[], None]) -> None:
        """Let producers write and readers read while `meanwhile` runs; then stop the producers, and the readers."""
        with (
            _threads([reader.run for reader in self.readers], self._readers_stop),
            _threads([appender.run for appender in self.appenders], self._producers_stop),
        ):
            meanwhile()

    def read_to(self, ends: Mapping[int, int]) -> None:
        """Let each reader read to these offsets; the last stable offsets, after all transactions have ended."""
        for reader in self.readers:
            deadline = clock() + END_SECONDS
            while any(reader.positions()[partition] < end for partition, end in ends.items()):
                assert clock() < deadline, (reader.name, reader.positions(), ends)
                reader.read_some()

    def close(self) -> None:
        """Disconnect the readers."""
        for reader in self.readers:
            reader.close()

    def history(self) -> History:
        """Return what has happened. Call it when the readers have read everything."""
        transactions = tuple(one for appender in self.appenders for one in appender.transactions)
        reads = tuple(
            Read(reader.name, partition, tuple(seen), is_complete=True)
            for reader in self.readers
            for partition, seen in enumerate(reader.seen)
        )
        return History(transactions, reads)


@contextmanager
def _threads(targets: Sequence[Callable[[threading.Event], None]], stop: threading.Event) -> Iterator[None]:
    """Run each target in a thread while the block runs; set `stop` at its end, and wait for the threads."""
    failures: list[Exception] = []

    def run(target: Callable[[threading.Event], None]) -> None:
        try:
            target(stop)
        except Exception as failure:  # noqa: BLE001 - raised again by the test's own thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(END_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a thread does not end"
    assert not failures, failures


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the last stable offset of each partition."""
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    with closing(Consumer(bootstrap, isolation_level="read_committed")) as consumer:
        return {place.partition: end for place, end in consumer.end_offsets(places).items()}
