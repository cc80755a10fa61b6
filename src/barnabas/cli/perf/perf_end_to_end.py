"""`barnabas perf end-to-end`: measures the time from the sending of a record until a consumer has it.

Sends and reads on the main thread. Kafka: EndToEndLatency.
"""

from __future__ import annotations

import os
import struct
import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import (
    BOOTSTRAP_TIMEOUT_MS,
    bootstrap_option,
    check_place,
    command_settings,
    friendly_errors,
    timeout_option,
)
from barnabas.cli.perf.perf_counts import NANOSECONDS_PER_SECOND, Pace, PerfCounts, Progress
from barnabas.cli.perf.perf_options import SendingOptions, print_sent, sending_options
from barnabas.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from barnabas.clients.consumer import Consumer
    from barnabas.clients.producer import Producer, RecordMetadata

_STAMP = struct.Struct(">8sQ")
"""The run's own bytes, by which records of other producers are passed over, and the record's number."""
_LONGEST_POLL_MS = 100.0


@click.command(name="end-to-end")
@bootstrap_option
@timeout_option
@sending_options(10_000, least_size=_STAMP.size)
def perf_end_to_end(timeout_seconds: float, **given: Any) -> None:
    """Send records, read them, and print how long each took. The figures mean what those of kafka-e2e-latency.sh mean.

    Without --throughput a record is sent when the one before it has been read, as Kafka's tool does. With it, records
    are sent at that rate whether or not the earlier ones have been read, and a latency begins when the record should
    have been sent (no coordinated omission). --property is for the producer; the consumer reads every partition of the
    topic from its end on, without a group.

    Ctrl-C prints what was measured so far.

    \b
        barnabas perf end-to-end --topic flights --records 5000
        barnabas perf end-to-end --topic flights --throughput 1000 --acks 1 --json
    """
    from barnabas.clients.consumer import Consumer, ConsumerConfig, TopicPartition
    from barnabas.clients.producer import Producer, ProducerConfig

    options = SendingOptions(**given)
    topic, rate = options.topic, options.rate
    clock = SystemClock()
    counts = PerfCounts(clock)
    interrupted = False
    with friendly_errors(options.bootstrap_servers):
        producer = Producer(options.bootstrap_servers, **options.producer_settings(ProducerConfig))
        reading = {**command_settings(ConsumerConfig), "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS}
        consumer = Consumer(options.bootstrap_servers, config=ConsumerConfig(**reading))
        try:
            # The producer's look-up makes the topic, if the broker makes topics.
            found = check_place(producer, topic, producer.config.max_block_ms)
            partitions = [TopicPartition(topic, info.partition) for info in found]
            consumer.assign(partitions)
            consumer.seek_to_end()
            for partition in partitions:
                consumer.position(partition)
            trips = RoundTrips(producer, consumer, counts, clock, timeout_seconds)
            trips.run(topic, options.size, options.warmup, rate)
            counts.restart()
            with Progress(counts, "read", options.progress_seconds, has_latency=True):
                trips.run(topic, options.size, options.records, rate)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            producer.close(0)
            consumer.close()
    print_sent("end-to-end", options, counts, interrupted=interrupted)


class RoundTrips:
    """The records of one run, sent and read."""

    def __init__(
        self, producer: Producer, consumer: Consumer, counts: PerfCounts, clock: Clock, timeout_seconds: float
    ) -> None:
        self._producer = producer
        self._consumer = consumer
        self._counts = counts
        self._clock = clock
        self._timeout_ns = int(timeout_seconds * NANOSECONDS_PER_SECOND)
        self._stamp = b""

    def run(self, topic: str, size: int, records: int, per_second: float | None) -> None:
        """Send and read `records` records, or less if one fails. Raises ClientTimeout when no more come."""
        # Other bytes for each run: those of the warm-up are over when it ends.
        self._stamp = os.urandom(8)
        filling = bytes(size - _STAMP.size)
        pace = Pace(self._clock, time.sleep, per_second)
        since_ns: list[int] = []
        arrived = 0
        waiting_since_ns = 0
        while arrived < records and not self._counts.errors:
            while len(since_ns) < records and (per_second is not None or len(since_ns) == arrived):
                due_ns = pace.due_ns(len(since_ns))
                if due_ns > self._clock.nanoseconds():
                    break
                if len(since_ns) == arrived:
                    waiting_since_ns = self._clock.nanoseconds()
                value = _STAMP.pack(self._stamp, len(since_ns)) + filling
                since_ns.append(due_ns)
                self._producer.send(topic, value, on_delivery=self._ended)
            came = self._read(self._poll_ms(pace, len(since_ns), records, per_second), since_ns)
            now_ns = self._clock.nanoseconds()
            if came:
                arrived += came
                waiting_since_ns = now_ns
            elif len(since_ns) > arrived and now_ns - waiting_since_ns > self._timeout_ns:
                self._raise_timeout(len(since_ns) - arrived)

    def _poll_ms(self, pace: Pace, sent: int, records: int, per_second: float | None) -> float:
        """Return how long a poll may wait: until the next record is due."""
        if per_second is None or sent == records:
            return _LONGEST_POLL_MS
        left_ms = (pace.due_ns(sent) - self._clock.nanoseconds()) / 1_000_000
        return min(max(left_ms, 0.0), _LONGEST_POLL_MS)

    def _read(self, wait_ms: float, since_ns: list[int]) -> int:
        """Count the records of this run that have arrived, and return their number."""
        came = 0
        for record in self._consumer.poll(wait_ms):
            value = record.value or b""
            if len(value) < _STAMP.size:
                continue
            stamp, number = _STAMP.unpack_from(value)
            if stamp == self._stamp:
                self._counts.add(1, len(value), since_ns[number])
                came += 1
        return came

    def _ended(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        if error is not None:
            self._counts.fail(error)

    def _raise_timeout(self, missing: int) -> None:
        """End the run. Raises ClientTimeout, always, with the number of records that are missing."""
        from barnabas.clients.errors import ClientTimeout

        seconds = self._timeout_ns / NANOSECONDS_PER_SECOND
        raise ClientTimeout(f"{missing} records that were sent have not been read within {seconds:g} s (--timeout)")
