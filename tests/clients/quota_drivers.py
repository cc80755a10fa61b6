"""Other people's producers and consumers that go as fast as they may, and say how fast that was.

Used by test_quota_clients.py. confluent-kafka runs here, on a thread of its own; Apache Kafka's client runs in a JVM
(QuotaClient.java), whose output a thread reads.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.apache_kafka import POM
from tests.support.maven import fetch_jars, find_java

WARM_UP_SECONDS, WARM_UP_PACE = 12, 950_000
"""Each begins at that many bytes a second, and then goes as fast as it can. A sampled rate remembers how its window was
filled: who begins as fast as he can uses what the whole window allows at once, waits until that has left it, and so on
for ever. So it does with Apache Kafka; a mean of 30 seconds then depends on how many bursts it meets."""
SLACK_SECONDS = 0.05
JAVA_PROGRAM = Path(__file__).with_name("QuotaClient.java")
VALUE = b"\0" * 1000


class Report(NamedTuple):
    """At a moment: seconds since its first record, bytes of values so far, the largest throttle time so far."""

    seconds: float
    size: int
    throttle_time_ms: float


class QuotaDriver:
    """A client that works on a thread until it is stopped."""

    def __init__(self, client_id: str, bootstrap_servers: str, topic: str) -> None:
        self.client_id = client_id
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.reports: list[Report] = []
        self.stopped = threading.Event()
        self._next = time.monotonic()
        self._thread = threading.Thread(target=self.run, name=client_id)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self._thread.join()

    def run(self) -> None:
        """Work until `stopped`, and report about four times a second."""
        raise AssertionError("a driver's own")

    def pace(self) -> None:
        """While warming up: wait until it is time for the next value. What was missed meanwhile is not made up for."""
        if self.seconds > WARM_UP_SECONDS:
            return
        now = time.monotonic()
        self._next = max(self._next + len(VALUE) / WARM_UP_PACE, now - SLACK_SECONDS)
        if self._next - now > 0.002:
            time.sleep(self._next - now)

    @property
    def seconds(self) -> float:
        """How long it has been at work."""
        return self.reports[-1].seconds if self.reports else 0.0

    def mean_rate(self, first_second: float, last_second: float) -> float:
        """Bytes a second between two moments."""
        first = next(report for report in self.reports if report.seconds >= first_second)
        last = next(report for report in self.reports if report.seconds >= last_second)
        return (last.size - first.size) / (last.seconds - first.seconds)

    @property
    def throttle_time_ms(self) -> float:
        """The largest that it told of."""
        return self.reports[-1].throttle_time_ms


class _ConfluentDriver(QuotaDriver):
    """Counts, and reads librdkafka's statistics."""

    def __init__(self, client_id: str, bootstrap_servers: str, topic: str) -> None:
        super().__init__(client_id, bootstrap_servers, topic)
        self._size = 0
        self._started = 0.0
        self._reported = 0.0
        self._throttle_time_ms = 0.0

    def settings(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "statistics.interval.ms": 1000,
            "stats_cb": self._on_statistics,
        }

    def count(self, size: int) -> None:
        self._started = self._started or time.monotonic()
        self._size += size

    def report(self) -> None:
        now = time.monotonic()
        if self._started and now - self._reported > 0.25:
            self._reported = now
            self.reports.append(Report(now - self._started, self._size, self._throttle_time_ms))

    def _on_statistics(self, statistics: str) -> None:
        for broker in json.loads(statistics)["brokers"].values():
            self._throttle_time_ms = max(self._throttle_time_ms, broker["throttle"]["max"])


class ConfluentProducer(_ConfluentDriver):
    """confluent-kafka's producer at its defaults, but for a bounded queue."""

    def run(self) -> None:
        producer = Producer(self.settings() | {"queue.buffering.max.messages": 1000})
        while not self.stopped.is_set():
            try:
                self.pace()
                producer.produce(self.topic, VALUE, partition=0, on_delivery=self._on_delivery)
                producer.poll(0)
            except BufferError:
                producer.poll(0.05)
            self.report()
        producer.purge()
        producer.flush(10)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.count(len(VALUE))


class ConfluentConsumer(_ConfluentDriver):
    """confluent-kafka's consumer without a group, in small fetches."""

    def run(self) -> None:
        small = {"fetch.message.max.bytes": 100_000, "queued.max.messages.kbytes": 500, "fetch.queue.backoff.ms": 5}
        consumer = Consumer(self.settings() | small | {"group.id": self.client_id, "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        while not self.stopped.is_set():
            for message in consumer.consume(50, timeout=0.05):
                if message.error() is None:
                    self.pace()
                    self.count(len(message.value() or b""))
            self.report()
        consumer.close()


class JavaClient(QuotaDriver):
    """Apache Kafka's producer or consumer; `kind` is produce or consume."""

    def __init__(self, client_id: str, bootstrap_servers: str, topic: str, kind: str) -> None:
        super().__init__(client_id, bootstrap_servers, topic)
        self._kind = kind

    def run(self) -> None:
        warm_up = [str(WARM_UP_PACE), str(WARM_UP_SECONDS)]
        arguments = [self._kind, self.bootstrap_servers, self.topic, self.client_id, *warm_up, "600"]
        command = [find_java(), "-Xmx256m", "-cp", f"{fetch_jars(POM)}/*", str(JAVA_PROGRAM), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                milliseconds, size, throttle_time_ms = map(int, line.split())
                self.reports.append(Report(milliseconds / 1000, size, throttle_time_ms))
                if self.stopped.is_set():
                    break
            process.terminate()
