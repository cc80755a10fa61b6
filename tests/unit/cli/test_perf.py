"""The figures of `barnabas perf`: percentiles, the pace, coordinated omission, settings as text."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.perf.perf_counts import LatencyHistogram, Pace, PerfCounts, Progress
from barnabas.cli.perf.perf_options import parse_settings, result_of, summary_of, wanted_rate
from barnabas.cli.perf.perf_produce import Sending, random_values
from barnabas.clients.consumer import ConsumerConfig
from barnabas.clients.producer import DeliveryCallback, ProducerConfig, RecordMetadata
from tests.support.mock_clock import MockClock

LATENCIES_US = st.lists(st.integers(0, 5_000) | st.integers(0, 10**9), min_size=1, max_size=200)


@given(LATENCIES_US, st.sampled_from([1, 50, 95, 99, 99.9, 100]))
def test_percentiles_are_those_of_the_sorted_latencies(latencies_us: list[int], percent: float) -> None:
    histogram = LatencyHistogram()
    for latency_us in latencies_us:
        histogram.record(latency_us)
    ordered = sorted(latencies_us)
    exact = next(each for rank, each in enumerate(ordered, 1) if rank >= len(ordered) * percent / 100)
    found = histogram.percentile_us(percent)
    assert exact <= found <= exact + exact // 1_000
    assert found == exact or exact >= 2_048
    assert histogram.max_us == max(latencies_us)
    assert histogram.figures().average_ms == pytest.approx(sum(latencies_us) / len(latencies_us) / 1000)


def test_no_latencies_and_absurd_ones_have_figures() -> None:
    histogram = LatencyHistogram()
    assert set(histogram.figures()) == {0.0}
    histogram.record(-5)
    histogram.record(1 << 60)
    assert histogram.percentile_us(50) == 0
    assert histogram.percentile_us(100) == histogram.max_us == (1 << 40) - 1


def never_sleep(seconds: float) -> None:
    pytest.fail(f"slept {seconds} s")


class StallingProducer:
    """Each send takes no time but one, which takes a second. Records are acknowledged 1 ms after their send."""

    def __init__(self, clock: MockClock, stalls_at: int) -> None:
        self._clock = clock
        self._stalls_at = stalls_at
        self.sent: list[bytes] = []

    def send(self, topic: str, value: bytes, *, on_delivery: DeliveryCallback) -> object:
        if len(self.sent) == self._stalls_at:
            self._clock.advance(1_000)
        self.sent.append(value)
        self._clock.advance(1)
        on_delivery(RecordMetadata(topic, 0, len(self.sent), -1), None)
        return None

    def flush(self) -> None:
        pass


def test_a_latency_begins_when_the_record_should_have_been_sent() -> None:
    clock = MockClock()
    counts = PerfCounts(clock)
    producer = StallingProducer(clock, stalls_at=10)
    sending = Sending(producer, counts, clock, lambda seconds: clock.advance(seconds * 1000))
    sending.send_all("t", [b"ab", b"c"], 1_000, per_second=100)
    assert producer.sent[:3] == [b"ab", b"c", b"ab"]
    latency = counts.latency()
    # The stall delays the record itself and the 110 after it: their sends catch up by 9 ms each.
    assert latency.max_ms == 1_001
    assert latency.p50_ms == 1
    assert latency.p95_ms == pytest.approx(550, rel=0.02)
    total = counts.total()
    assert (total.records, total.megabytes * (1 << 20)) == (1_000, 1_500)
    assert total.seconds == pytest.approx(9.991)

    counts.restart()
    Sending(StallingProducer(clock, stalls_at=10), counts, clock, never_sleep).send_all("t", [b"ab"], 1_000, None)
    # As fast as possible, as with Kafka's tool: only the one record was slow.
    assert counts.latency().p999_ms == 1
    assert counts.latency().max_ms == 1_001


def test_a_run_ends_at_the_first_failure() -> None:
    clock = MockClock()
    counts = PerfCounts(clock)

    class Failing(StallingProducer):
        def send(self, topic: str, value: bytes, *, on_delivery: DeliveryCallback) -> object:
            self.sent.append(value)
            on_delivery(None, ValueError("no"))
            return None

    producer = Failing(clock, 0)
    Sending(producer, counts, clock, never_sleep).send_all("t", [b""], 5, None)
    assert len(producer.sent) == 1
    assert [str(error) for error in counts.errors] == ["no"]


def test_the_lines_have_the_form_of_kafkas_tool() -> None:
    clock = MockClock()
    counts = PerfCounts(clock)
    start_ns = clock.nanoseconds()
    clock.advance(500)
    for _ in range(2):
        counts.add(1, 1 << 20, start_ns)
    assert summary_of(counts) == (
        "2 records sent, 4.0 records/sec (4.00 MB/sec), 500.00 ms avg latency, 500.00 ms max latency,"
        " 500.00 ms 50th, 500.00 ms 95th, 500.00 ms 99th, 500.00 ms 99.9th."
    )
    assert result_of(counts) == {
        "records": 2,
        "seconds": 0.5,
        "records_per_second": 4.0,
        "megabytes": 2.0,
        "megabytes_per_second": 4.0,
        "latency_ms": {"average": 500.0, "p50": 500.0, "p95": 500.0, "p99": 500.0, "p999": 500.0, "max": 500.0},
    }
    progress = Progress(counts, "sent", 1, has_latency=True)
    assert progress.line(counts.end_interval()) == (
        "2 records sent, 4.0 records/sec (4.00 MB/sec), 500.0 ms avg latency, 500.0 ms max latency"
    )
    clock.advance(1_000)
    assert progress.line(counts.end_interval()).startswith("0 records sent, 0.0 records/sec")
    assert counts.total().records == 2


def test_a_pace_waits_and_never_sends_early() -> None:
    clock = MockClock()
    pace = Pace(clock, lambda seconds: clock.advance(seconds * 500), per_second=4)
    start_ns = clock.nanoseconds()
    for number in range(5):
        due_ns = pace.await_turn(number)
        assert due_ns == start_ns + number * 250_000_000
        assert clock.nanoseconds() >= due_ns
    assert [wanted_rate(each) for each in (-1, -2, 0.5)] == [None, None, 0.5]
    for bad in (0, float("nan")):
        with pytest.raises(click.UsageError, match="-1 for no limit"):
            wanted_rate(bad)


def test_settings_come_as_text_by_kafkas_names() -> None:
    given = ("linger.ms=5", "enable_idempotence=true", "compression.level=none", "acks=1", "client.id=mine")
    assert parse_settings(ProducerConfig, given, acks="all", batch_size=None) == {
        "linger_ms": 5,
        "enable_idempotence": True,
        "compression_level": None,
        "acks": "all",
        "client_id": "mine",
    }
    assert parse_settings(ConsumerConfig, ("partition.assignment.strategy=range,sticky",)) == {
        "partition_assignment_strategy": ["range", "sticky"]
    }
    for text, message in [
        ("linger.msec=5", "no setting linger.msec; did you mean linger.ms?"),
        ("xyz=5", "no setting xyz; docs/client-settings.md lists all"),
        ("linger.ms=soon", "linger.ms takes a whole number, not 'soon'"),
        ("enable.idempotence=yes", "enable.idempotence takes true or false, not 'yes'"),
    ]:
        with pytest.raises(ValueError, match=message):
            parse_settings(ProducerConfig, (text,))


def test_values_differ_but_are_the_same_in_each_run() -> None:
    values = random_values(20)
    assert len(set(values)) == len(values)
    assert values == random_values(20)
    assert all(value.isalpha() and value.isupper() and len(value) == 20 for value in values)
    assert [len(value) for value in random_values(5 << 20)] == [5 << 20]
    assert set(random_values(0)) == {b""}
