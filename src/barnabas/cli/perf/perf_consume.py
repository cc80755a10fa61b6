"""`barnabas perf consume`: reads a topic from its beginning as a member of a new group, and measures the rate.

Runs on the main thread; the group's member has a second thread. Kafka: ConsumerPerformance, ConsumerPerfRebListener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click

from barnabas.cli.client_options import bootstrap_option, friendly_errors
from barnabas.cli.perf.perf_counts import NANOSECONDS_PER_SECOND, Figures, PerfCounts, Progress
from barnabas.cli.perf.perf_options import (
    ReadingOptions,
    measuring_options,
    print_result,
    rates_of,
    records_option,
    topic_option,
)
from barnabas.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from barnabas.clients.consumer import Consumer, ConsumerRecord

POLL_MS = 100


@click.command(name="consume")
@bootstrap_option
@topic_option
@records_option(None, "Stop after so many records.  [default: when no more come]")
@click.option("--group", metavar="GROUP", help="The group to read in.  [default: a new one]")
@click.option(
    "--idle",
    "idle_seconds",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop when no record has come for so long.",
)
@measuring_options
def perf_consume(**given: Any) -> None:
    """Read records, and print rates. The figures mean what those of kafka-consumer-perf-test.sh mean.

    The member joins a group and begins at the earliest record. Times run from the first poll to the last record;
    rebalance.time.ms is the part until the group gave it partitions, and fetch.time.ms the rest. A MB is 1,048,576
    bytes of keys and values.

    Ctrl-C prints what was measured so far.

    \b
        barnabas perf consume --topic flights --records 1000000
        barnabas perf consume --topic flights --property fetch.min.bytes=100000 --json
    """
    from barnabas.cli.perf.perf_rebalance_times import RebalanceTimes
    from barnabas.clients.consumer import Consumer, ConsumerConfig
    from barnabas.protocol.errors import ApiError, ErrorCode

    options = ReadingOptions(**given)
    clock = SystemClock()
    counts = PerfCounts(clock)
    rebalances = RebalanceTimes(clock)
    interrupted = False
    with friendly_errors(options.bootstrap_servers):
        settings = options.settings(
            ConsumerConfig,
            "auto.offset.reset=earliest",
            "max.poll.records=5000",
            # A typing error in a topic's name must not create that topic.
            "allow.auto.create.topics=false",
            group_id=options.group or f"perf-consumer-{uuid4().hex[:8]}",
        )
        with Consumer(options.bootstrap_servers, **settings) as consumer:
            try:
                if not consumer.partitions_for(options.topic):
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {options.topic}")
                consumer.subscribe([options.topic], listener=rebalances)
                loop = PollLoop(consumer, counts, clock, options.idle_seconds)
                if loop.read(options.warmup):
                    rebalances.restart()
                counts.restart()
                with Progress(counts, "read", options.progress_seconds, has_latency=False):
                    loop.read(options.records)
            except KeyboardInterrupt:
                interrupted = True
    run = ConsumerFigures(counts.total(), rebalances.seconds)
    result = {"command": "consume", "topic": options.topic, **run.result()}
    print_result(run.summary(), result, as_json=options.as_json, interrupted=interrupted)


class PollLoop:
    """The polls of one run."""

    def __init__(self, consumer: Consumer, counts: PerfCounts, clock: Clock, idle_seconds: float) -> None:
        self._consumer = consumer
        self._counts = counts
        self._clock = clock
        self._idle_ns = int(idle_seconds * NANOSECONDS_PER_SECOND)

    def read(self, limit: int | None) -> int:
        """Count up to `limit` records (None: all that come), and return their number."""
        count = 0
        last_ns = self._clock.nanoseconds()
        while limit is None or count < limit:
            most = None if limit is None else min(limit - count, self._consumer.config.max_poll_records)
            records = self._consumer.poll(POLL_MS, most)
            if records:
                count += len(records)
                last_ns = self._clock.nanoseconds()
                self._counts.add(len(records), sum(map(_size_of, records)))
            elif self._clock.nanoseconds() - last_ns > self._idle_ns:
                break
        return count


def _size_of(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


class ConsumerFigures(NamedTuple):
    """The figures of one run, under the names of Kafka's tool."""

    figures: Figures
    rebalance_seconds: float

    @property
    def fetch_seconds(self) -> float:
        """The time with partitions."""
        return max(self.figures.seconds - self.rebalance_seconds, 0.0)

    def result(self) -> dict[str, object]:
        """Return the figures for JSON."""
        figures = self.figures
        fetching = figures._replace(seconds=self.fetch_seconds)
        return {
            **rates_of(figures),
            "rebalance_seconds": round(self.rebalance_seconds, 6),
            "fetch_seconds": round(self.fetch_seconds, 6),
            "fetch_records_per_second": round(fetching.records_per_second, 3),
            "fetch_megabytes_per_second": round(fetching.megabytes_per_second, 6),
        }

    def summary(self) -> str:
        """Return the names and the figures as two lines, as Kafka's tool does."""
        figures = self.figures
        fetching = figures._replace(seconds=self.fetch_seconds)
        columns = {
            "data.consumed.in.MB": f"{figures.megabytes:.4f}",
            "MB.sec": f"{figures.megabytes_per_second:.4f}",
            "data.consumed.in.nMsg": str(figures.records),
            "nMsg.sec": f"{figures.records_per_second:.4f}",
            "rebalance.time.ms": f"{self.rebalance_seconds * 1000:.0f}",
            "fetch.time.ms": f"{self.fetch_seconds * 1000:.0f}",
            "fetch.MB.sec": f"{fetching.megabytes_per_second:.4f}",
            "fetch.nMsg.sec": f"{fetching.records_per_second:.4f}",
        }
        return f"{', '.join(columns)}\n{', '.join(columns.values())}"
