"""What was measured, held against the targets, as a table for people and as JSON for programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.chaos.stalls.attack import UNANSWERED
from tests.chaos.stalls.brokers import OURS, REFERENCE
from tests.chaos.stalls.kinds import Kind, Stage
from tests.chaos.stalls.victim import TICK_SECONDS

TARGETS_MS: Final[Mapping[float, float]] = {2: 50.0, 20: 250.0}
"""How long the victim may wait, by the megabytes that each connection sends."""
TARGET_BEFORE_LOGIN_MS: Final = 20.0
MEMORY_PER_BYTE: Final = 10
"""What a request may take of memory, decoded, in multiples of its frame."""
MEMORY_ALLOWANCE_MIB: Final = 300
"""For everything that does not follow from the frames: the budget of decompression, above all."""
NEAR: Final = 5
"""A wait of that many times the target is no noise of the machine."""
NOISE_MS: Final = TICK_SECONDS * 1000
"""A wait that differs by less is not worse than Kafka's."""


class Measurement(NamedTuple):
    """What one kind of requests of one size did to one broker. Waits in ms, sizes in MB, memory in MiB.

    quiet_ms: the longest wait just before, without the requests: the noise of the machine.
    """

    kind: str
    size_mb: float
    system: str
    worst_ms: float
    p99_ms: float
    quiet_ms: float
    is_victim_answered: bool
    memory_mib: float
    seconds: float
    answers: Mapping[str, int]
    is_alive: bool

    @property
    def answer_text(self) -> str:
        """What became of the connections, the most frequent first."""
        ordered = sorted(self.answers.items(), key=lambda entry: -entry[1])
        return ", ".join(
            text if count == max(self.answers.values()) else f"{text} ({count})" for text, count in ordered
        )


class Row(NamedTuple):
    """A kind and a size: the measurement of each system, and what ours missed."""

    kind: Kind
    size_mb: float
    measured: Mapping[str, Measurement]
    connections: int

    @property
    def target_ms(self) -> float:
        """How long our victim may wait."""
        if self.kind.stage is not Stage.READY:
            return TARGET_BEFORE_LOGIN_MS
        return TARGETS_MS.get(self.size_mb, max(TARGETS_MS.values()) * max(1.0, self.size_mb / max(TARGETS_MS)))

    @property
    def memory_limit_mib(self) -> float:
        """How much our broker may grow."""
        return MEMORY_ALLOWANCE_MIB + self.size_mb * self.connections * (MEMORY_PER_BYTE + 1)

    @property
    def missed(self) -> list[str]:
        """What ours missed, in words; empty when all is well, or when ours was not measured."""
        ours, kafka = self.measured.get(OURS), self.measured.get(REFERENCE)
        return [] if ours is None else list(self._missed_by(ours, kafka))

    @property
    def is_near_miss(self) -> bool:
        """Whether a busy machine may be the reason that ours missed its target."""
        ours = self.measured.get(OURS)
        if ours is None or not self.missed or not (ours.is_alive and ours.is_victim_answered):
            return False
        return ours.worst_ms < NEAR * self.target_ms

    def _missed_by(self, ours: Measurement, kafka: Measurement | None) -> Iterable[str]:
        if not ours.is_alive:
            yield "the broker died"
        if not ours.is_victim_answered:
            yield "the victim got no answer"
        elif ours.worst_ms > self.target_ms:
            yield f"{ours.worst_ms:.0f} ms, target {self.target_ms:.0f}"
        if ours.memory_mib > self.memory_limit_mib:
            yield f"{ours.memory_mib:.0f} MiB, limit {self.memory_limit_mib:.0f}"
        if kafka is None or not kafka.is_alive or not kafka.is_victim_answered:
            return
        if ours.worst_ms > kafka.worst_ms + NOISE_MS:
            yield f"Kafka's victim waited {kafka.worst_ms:.0f} ms"
        if UNANSWERED in ours.answers and UNANSWERED not in kafka.answers:
            yield "Kafka answered"


_COLUMNS: Final = ("quiet ms", "worst ms", "p99 ms", "memory MiB", "seconds", "answer")


def markdown(rows: Sequence[Row], systems: Sequence[str], title: str) -> str:
    """Return the page: what was missed, then all rows."""
    bad = [row for row in rows if row.missed]
    head = ["kind", "MB", "target ms", *(f"{system}: {column}" for system in systems for column in _COLUMNS), "missed"]
    lines = [f"# {title}", "", f"{len(rows)} rows, {len(bad)} of them missed a target.", ""]
    lines += [_line(head), _line("---" for _ in head)]
    lines += [_line(_cells(row, systems)) for row in [*bad, *(row for row in rows if not row.missed)]]
    return "\n".join(lines) + "\n"


def _cells(row: Row, systems: Sequence[str]) -> list[str]:
    cells = [row.kind.name, f"{row.size_mb:g}", f"{row.target_ms:.0f}"]
    for system in systems:
        found = row.measured.get(system)
        cells += [""] * len(_COLUMNS) if found is None else _figures(found)
    return [*cells, "; ".join(row.missed)]


def _figures(found: Measurement) -> list[str]:
    worst = f"{found.worst_ms:.0f}" if found.is_victim_answered else f"over {found.worst_ms:.0f}"
    answer = found.answer_text if found.is_alive else f"{found.answer_text}; the broker died"
    return [
        f"{found.quiet_ms:.0f}",
        worst,
        f"{found.p99_ms:.0f}",
        f"{found.memory_mib:.0f}",
        f"{found.seconds:.1f}",
        answer,
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def terminal_line(row: Row, systems: Sequence[str]) -> str:
    """Return a line of the table on the terminal."""
    parts = [f"{row.kind.name[:58]:58} {row.size_mb:4g}"]
    for system in systems:
        if (found := row.measured.get(system)) is not None:
            quiet, worst, p99, memory, seconds, answer = _figures(found)
            wait = f"{worst:>9} ms (p99 {p99:>5}, quiet {quiet:>3})"
            parts.append(f"{system}: {wait} {memory:>5} MiB {seconds:>5} s {answer[:40]:40}")
    return " | ".join([*parts, f"MISSED: {'; '.join(row.missed)}" if row.missed else "well"])


def as_json(rows: Sequence[Row]) -> str:
    """Return every figure."""
    found: list[dict[str, Any]] = [
        {
            "kind": row.kind.name,
            "size_mb": row.size_mb,
            "target_ms": row.target_ms,
            "missed": row.missed,
            "measured": {system: measurement._asdict() for system, measurement in row.measured.items()},
        }
        for row in rows
    ]
    return json.dumps(found, indent=1) + "\n"
