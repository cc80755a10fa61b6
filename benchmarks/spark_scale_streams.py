"""The cells `partitions` and `history` of `spark_scale`: what a micro-batch costs, by partitions and by number.

Called by `spark_scale`, on the main thread; no lock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from benchmarks.spark_processes import ROLES
from benchmarks.spark_scale_bench import Bench, MicroBatch, create, fill, note_progress, run_pipeline, run_stream

PARTITION_COUNTS = (1, 10, 50, 200)
MICRO_BATCHES = 12
HISTORY_PARTITIONS = 4
_WINDOWS = ((5, 15), (90, 110), (490, 510), (980, 1000))
"""Micro-batches of a history that are compared, where there are so many."""


def measure_partitions(bench: Bench, formats: Sequence[str]) -> None:
    """Print what a micro-batch and a batch query cost by the number of partitions, with one busy and with all."""
    print(f"\npartitions: a micro-batch, medians of {MICRO_BATCHES - 2}; CPU ms of all processes")
    print(f"{'source':9} {'partitions':>10} {'with rows':>9} {'ms':>6} {'CPU ms':>7}  by step, ms")
    for count in PARTITION_COUNTS:
        for busy in sorted({1, count}):
            topic = f"partitions-{count}-{busy}"
            create(bench, topic, count)
            fill(bench, topic, MICRO_BATCHES * busy, busy, value_bytes=100)
            for name in formats:
                batches = run_stream(bench, name, topic, busy)
                _report_micro_batches(f"{name:9} {count:10} {busy:9}", batches)
        _report_batch_queries(bench, count, formats)


def _report_batch_queries(bench: Bench, count: int, formats: Sequence[str]) -> None:
    """Print the time of a batch query of a topic with so many partitions, a row in each of them."""
    for name in formats:
        spent, seconds = [], []
        for _ in range(4):
            before, started = sum(bench.cpu().values()), time.perf_counter()
            reader = bench.spark.read.format(name).option("kafka.bootstrap.servers", bench.servers)
            rows = reader.option("subscribe", f"partitions-{count}-{count}").load().select("value").count()
            assert rows == MICRO_BATCHES * count
            seconds.append(time.perf_counter() - started)
            spent.append(sum(bench.cpu().values()) - before)
        print(f"{name:9} {count:10} batch query {median(seconds[1:]):.2f} s, CPU {median(spent[1:]):.2f} s", flush=True)


def _report_micro_batches(title: str, batches: Sequence[MicroBatch]) -> None:
    # The first one starts the query, the last one is noticed late.
    counted = batches[1:-1]
    spent = sum(counted[-1].cpu.values()) - sum(counted[0].cpu.values())
    cpu_ms = 1000 * spent / (counted[-1].number - counted[0].number)
    steps = {step: median(each.steps.get(step, 0) for each in counted) for step in counted[-1].steps}
    named = ", ".join(f"{step} {value:.0f}" for step, value in sorted(steps.items()) if step != "triggerExecution")
    print(f"{title} {steps['triggerExecution']:6.0f} {cpu_ms:7.0f}  {named}", flush=True)


def measure_history(bench: Bench, count: int) -> None:
    """Print what a micro-batch costs near the begin and near the end of `count` of them, in a query and a pipeline."""
    topic, target = "history", "history-out"
    for name in (topic, target):
        create(bench, name, HISTORY_PARTITIONS)
    fill(bench, topic, count * HISTORY_PARTITIONS, HISTORY_PARTITIONS, value=b'{"id": 1}')
    print(f"\nhistory: {count} micro-batches of {HISTORY_PARTITIONS} rows; medians, ms; CPU ms a micro-batch; MiB")
    _report_history("query", run_stream(bench, "barnabas", topic, HISTORY_PARTITIONS))
    found: dict[int, MicroBatch] = {}

    def watch() -> bool:
        for query in bench.spark.streams.active:
            note_progress(bench, query, found)
        return False

    options = {"maxOffsetsPerTrigger": str(HISTORY_PARTITIONS)}
    run_pipeline(bench, topic, target, "id BIGINT", "id", options, watch)
    _report_history("pipeline", [found[number] for number in sorted(found)])


def _report_history(title: str, batches: Sequence[MicroBatch]) -> None:
    by_number = {each.number: each for each in batches}
    for first, last in _WINDOWS:
        inside = [by_number[number] for number in range(first, last) if number in by_number]
        if len(inside) < (last - first) // 2:
            continue
        span = inside[-1].number - inside[0].number
        # The most that was seen: after the last micro-batch a query's processes may have ended, and count no more.
        most = {role: max(each.cpu.get(role, 0) for each in inside) for role in ROLES}
        cpu = " ".join(f"{role} {1000 * (most[role] - inside[0].cpu.get(role, 0)) / span:.0f}" for role in ROLES)
        memory = " ".join(f"{role} {inside[-1].memory.get(role, 0):.0f}" for role in ROLES)
        steps = {step: median(each.steps.get(step, 0) for each in inside) for step in inside[-1].steps}
        named = ", ".join(f"{step} {value:.0f}" for step, value in sorted(steps.items()))
        print(f"{title}, micro-batches {first} to {last}: {named}; CPU: {cpu}; memory: {memory}", flush=True)
