"""What is measured: one row a cell. The load generator's arguments say what a cell is."""

from __future__ import annotations

from dataclasses import dataclass, field

KIB, MB = 1024, 1_000_000


@dataclass(frozen=True)
class Cell:
    """One measurement. `figure` names the result by which systems are compared: higher is better, except latencies."""

    name: str
    what: str
    command: str
    arguments: tuple[str, ...]
    figure: str
    loaded_batch_bytes: int = 0
    """For fetches: the topic is filled with batches of this size ..."""
    loaded_bytes: int = 0
    """... up to this amount."""
    also: tuple[str, ...] = field(default=())
    partitions: int = 1
    """Of the topic. With many, every round produces to the same topic, each partition of which was written to before:
    the first write to a partition is another thing, and Apache Kafka's slowest."""
    beside: tuple[str, ...] = field(default=())
    """Arguments of a produce that runs on another connection meanwhile; its rate is noted as `beside_mb_per_second`."""
    from_disk: bool = False
    """The topic's files are dropped from the page cache before each run."""


def _produce(name: str, what: str, figure: str, also: tuple[str, ...] = (), **arguments: int) -> Cell:
    return Cell(
        name, what, "produce", _words(**arguments), figure, also=also, partitions=arguments.get("partitions", 1)
    )


def _words(**arguments: int) -> tuple[str, ...]:
    return tuple(word for key, value in arguments.items() for word in (f"--{key.replace('_', '-')}", str(value)))


def _fetch(name: str, what: str, max_bytes: int, batch_bytes: int, total: int) -> Cell:
    return Cell(name, what, "fetch", ("--max-bytes", str(max_bytes)), "mb_per_second", batch_bytes, total)


LATENCIES = ("p50_us", "p99_us", "p999_us")
CELLS = (
    _produce("p-100b", "produce, 1 record of 100 B, 1 in flight", "requests_per_second", LATENCIES, value_bytes=100),
    _produce("p-16k", "produce, 16 KB batches of 100 B, 5 in flight", "mb_per_second", batch_bytes=16 * KIB, depth=5),
    _produce(
        "p-100k",
        "produce, 100 KB batches of 1 KB, 5 in flight",
        "mb_per_second",
        batch_bytes=100_000,
        value_bytes=1000,
        depth=5,
    ),
    _produce(
        "p-1m",
        "produce, 1 MB batches of 1 KB, 5 in flight",
        "mb_per_second",
        batch_bytes=MB,
        value_bytes=1000,
        depth=5,
    ),
    _produce(
        "p-10c",
        "produce, 10 connections, 1 record of 1 KB, 1 in flight each",
        "requests_per_second",
        LATENCIES,
        value_bytes=1000,
        connections=10,
    ),
    _produce(
        "p-16k-none",
        "produce, 16 KB batches of 100 B, acks=0, 64 between two questions for the end of the partition",
        "mb_per_second",
        batch_bytes=16 * KIB,
        depth=64,
        acks=0,
    ),
    _produce(
        "p-16k-all",
        "produce, 16 KB batches of 100 B, 5 in flight, acks=all",
        "mb_per_second",
        batch_bytes=16 * KIB,
        depth=5,
        acks=-1,
    ),
    _produce(
        "p-16k-100p",
        "produce, 16 KB batches of 100 B to 100 partitions in turn, 5 in flight",
        "mb_per_second",
        batch_bytes=16 * KIB,
        depth=5,
        partitions=100,
    ),
    _produce(
        "p-16k-1000p",
        "produce, 16 KB batches of 100 B to 1,000 partitions in turn, 5 in flight",
        "mb_per_second",
        batch_bytes=16 * KIB,
        depth=5,
        partitions=1000,
    ),
    Cell(
        "p-16k-idempotent",
        "idempotent produce, 16 KB batches of 100 B, 5 in flight, acks=all",
        "produce",
        (*_words(batch_bytes=16 * KIB, depth=5, acks=-1), "--idempotent"),
        "mb_per_second",
    ),
    _fetch("f-16k", "fetch, one 16 KB batch each", 16 * KIB, 16 * KIB, 160 * MB),
    _fetch("f-1m", "fetch, 1 MB of 100 KB batches each", 1 << 20, 100_000, 1000 * MB),
    Cell(
        "f-1m-old",
        "fetch of old data, 1 MB each, not in the page cache, while 16 KB batches are produced, 5 in flight",
        "fetch",
        ("--max-bytes", str(1 << 20)),
        "mb_per_second",
        100_000,
        1000 * MB,
        also=("beside_mb_per_second",),
        beside=_words(batch_bytes=16 * KIB, depth=5),
        from_disk=True,
    ),
)
COLD_START = "cold-start"
CELL_NAMES = (COLD_START, *(cell.name for cell in CELLS))
