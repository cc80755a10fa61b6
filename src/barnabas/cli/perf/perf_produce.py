"""`barnabas perf produce`: sends records as fast as possible or at a wanted rate, and measures each one's latency.

Sends on the main thread; the results arrive on the producer's network thread. Kafka: ProducerPerformance.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import click

from barnabas.cli.client_options import bootstrap_option, check_place, friendly_errors
from barnabas.cli.perf.perf_counts import Pace, PerfCounts, Progress
from barnabas.cli.perf.perf_options import SendingOptions, print_sent, sending_options
from barnabas.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from barnabas.clients.producer import DeliveryCallback, RecordMetadata

_MOST_VALUES = 1_000
"""The number of different values that are sent in turn: enough to give compression something to do."""
_VALUES_BYTES = 8 << 20
"""The memory for them: large values are fewer."""
_LETTERS = bytes(ord("A") + byte % 26 for byte in range(256))


@click.command(name="produce")
@bootstrap_option
@sending_options(100_000, least_size=0)
def perf_produce(**given: Any) -> None:
    """Send records, and print rates and latencies. The figures mean what those of kafka-producer-perf-test.sh mean.

    A latency is the time from `send` to the broker's acknowledgement; a MB is 1,048,576 bytes of values. With
    --throughput there is one difference: a latency begins when the record should have been sent, so that a broker that
    stalls shows all the records that were held up (no coordinated omission). Values are random letters.

    Ctrl-C prints what was measured so far.

    \b
        barnabas perf produce --topic flights --records 1000000 --size 1000 --compression lz4
        barnabas perf produce --topic flights --throughput 1000 --property max.in.flight.requests.per.connection=1
    """
    from barnabas.clients.producer import Producer, ProducerConfig

    options = SendingOptions(**given)
    rate = options.rate
    clock = SystemClock()
    counts = PerfCounts(clock)
    interrupted = False
    with friendly_errors(options.bootstrap_servers):
        producer = Producer(options.bootstrap_servers, **options.producer_settings(ProducerConfig))
        try:
            check_place(producer, options.topic, producer.config.max_block_ms)
            sending = Sending(producer, counts, clock, time.sleep)
            values = random_values(options.size)
            sending.send_all(options.topic, values, options.warmup, None)
            counts.restart()
            with Progress(counts, "sent", options.progress_seconds, has_latency=True):
                sending.send_all(options.topic, values, options.records, rate)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            producer.close(0 if interrupted or counts.errors else None)
    print_sent("produce", options, counts, interrupted=interrupted)


class RecordSender(Protocol):
    """The part of Producer that a run uses."""

    def send(self, topic: str, value: bytes, *, on_delivery: DeliveryCallback) -> object:
        """Queue a record."""
        ...

    def flush(self) -> None:
        """Wait until every record has its result."""
        ...


class Sending:
    """The sending of one run. It ends at the first record that fails."""

    def __init__(
        self, producer: RecordSender, counts: PerfCounts, clock: Clock, sleep: Callable[[float], None]
    ) -> None:
        self._producer = producer
        self._counts = counts
        self._clock = clock
        self._sleep = sleep

    def send_all(self, topic: str, values: list[bytes], records: int, per_second: float | None) -> None:
        """Send records with these values in turn, and wait until all have arrived or failed."""
        pace = Pace(self._clock, self._sleep, per_second)
        for number in range(records):
            since_ns = pace.await_turn(number)
            value = values[number % len(values)]
            self._producer.send(topic, value, on_delivery=partial(self._ended, since_ns, len(value)))
            if self._counts.errors:
                break
        self._producer.flush()

    def _ended(
        self, since_ns: int, size_bytes: int, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        if error is not None:
            self._counts.fail(error)
        else:
            self._counts.add(1, size_bytes, since_ns)


def random_values(size: int) -> list[bytes]:
    """Return values of random capital letters, as Kafka's tool sends."""
    chance = random.Random(0)  # the same values in each run, so that compressed sizes can be compared
    count = min(max(_VALUES_BYTES // max(size, 1), 1), _MOST_VALUES)
    return [chance.randbytes(size).translate(_LETTERS) for _ in range(count)]
