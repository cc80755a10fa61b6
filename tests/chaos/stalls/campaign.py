"""The campaign: what a request of any kind does to the other clients of a broker, ours and Apache Kafka side by side.

    python -m tests.chaos.stalls.campaign [--kinds 'gzip|groups'] [--sizes 2 20] [--systems barnabas apache-kafka]

Six connections send requests of one kind at once (`kinds` is the table), of so many megabytes each. Meanwhile another
client, the victim, produces a record every 20 ms on a connection of its own, to the same listener. Measured are the
victim's longest wait, the memory that the broker takes, the answer, and whether the broker lives. A broker that died or
stands still is replaced. Prints a line a row, writes `results/stalls.md` and `.json`, and ends with status 1 when ours
missed a target. `make stalls` calls it.

A row that misses a target by little is measured a second time, and the better measurement counts: what else runs on the
machine can only lengthen a wait.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from benchmarks.process_usage import cpu_seconds
from tests.chaos.stalls.attack import Attack
from tests.chaos.stalls.brokers import OURS, SYSTEMS, Broker, Memory, write_certificates
from tests.chaos.stalls.kinds import KINDS, Kind, Listener
from tests.chaos.stalls.report import Measurement, Row, as_json, markdown, terminal_line
from tests.chaos.stalls.victim import Victim, Wait

CONNECTIONS: Final = 6
SIZES_MB: Final = (2, 20)
SECONDS_PER_KIND: Final = 20.0
TOTAL_SECONDS: Final = 3 * 3600.0
OUTPUT: Final = Path("results/stalls")
_MB: Final = 1_000_000
_QUIET_SECONDS: Final = 0.5
_AFTER_SECONDS: Final = 0.3
_RECOVERY_SECONDS: Final = 20.0
_SAMPLE_SECONDS: Final = 0.2
_CALM_MS: Final = 60.0
_IDLE_SHARE: Final = 0.3
"""Of a processor: what a broker uses for the victim and its own upkeep is less."""


class Bounds(NamedTuple):
    """How much is sent, and for how long a kind may take."""

    connections: int = CONNECTIONS
    seconds: float = SECONDS_PER_KIND


class Target:
    """One system under attack, with a victim at each listener that was asked for."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._victims: dict[Listener, Victim] = {}

    def start(self) -> None:
        """Start the broker."""
        self.broker.start()

    def close(self) -> None:
        """End the victims and the broker."""
        self._close_victims()
        self.broker.end()

    def measure(self, kind: Kind, frames: Sequence[bytes], size_mb: float, bounds: Bounds) -> Measurement:
        """Send the frames from every connection, and say what happened."""
        victim = self._victim(kind.listener)
        memory = Memory(self.broker.server.pid)
        attack = Attack(self.broker.place_of_senders(kind.listener), kind, frames, bounds.connections)
        victim.begin()
        time.sleep(_QUIET_SECONDS)
        began_at = time.monotonic()
        self._run(attack, memory, bounds.seconds)
        seconds = time.monotonic() - began_at
        time.sleep(_AFTER_SECONDS)
        waits = victim.end()
        memory.sample()
        is_alive = self.broker.server.is_alive
        attack.end()
        if not is_alive or not self._recovers(kind.listener):
            self._close_victims()
            self.broker.restart()
        during = [wait for wait in waits if wait.due_at + wait.seconds > began_at]
        return Measurement(
            kind.name,
            size_mb,
            self.broker.system,
            _worst_ms(during),
            _percentile_ms(during, 0.99),
            _worst_ms([wait for wait in waits if wait.due_at + wait.seconds <= began_at]),
            all(wait.is_answered for wait in during),
            memory.growth_mib,
            seconds,
            attack.answers(),
            is_alive,
        )

    def _run(self, attack: Attack, memory: Memory, seconds: float) -> None:
        """Run the attack, and sample memory: a process that dies takes its figures along."""
        attack.start()
        deadline = time.monotonic() + seconds
        while attack.is_running() and self.broker.server.is_alive and time.monotonic() < deadline:
            attack.wait(_SAMPLE_SECONDS)
            memory.sample()

    def _recovers(self, listener: Listener) -> bool:
        """Wait until the victim is served promptly again and nothing is left to do; whether that happens.

        Work for connections that are closed would be counted as that of the next kind.
        """
        deadline = time.monotonic() + _RECOVERY_SECONDS
        victim = self._victim(listener)
        pid = self.broker.server.pid
        while time.monotonic() < deadline:
            before = cpu_seconds(pid)
            victim.begin()
            time.sleep(_QUIET_SECONDS)
            waits = victim.end()
            is_idle = (cpu_seconds(pid) - before).total < _IDLE_SHARE * _QUIET_SECONDS
            if is_idle and all(wait.is_answered for wait in waits) and _worst_ms(waits) < _CALM_MS:
                return True
        return False

    def _victim(self, listener: Listener) -> Victim:
        if listener not in self._victims:
            self._victims[listener] = Victim(self.broker.place_of_victim(listener))
            self._recovers(listener)
        return self._victims[listener]

    def _close_victims(self) -> None:
        for victim in self._victims.values():
            victim.close()
        self._victims.clear()


def _worst_ms(waits: Sequence[Wait]) -> float:
    return max((wait.seconds for wait in waits), default=0.0) * 1000


def _percentile_ms(waits: Sequence[Wait], share: float) -> float:
    ordered = sorted(wait.seconds for wait in waits)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1000 if ordered else 0.0


class Campaign:
    """All rows of a run. Use as a context manager, which starts and ends the brokers."""

    def __init__(self, directory: Path, systems: Sequence[str], bounds: Bounds) -> None:
        certificates = directory / "certificates"
        write_certificates(certificates)
        self._targets = {system: Target(Broker(system, directory, certificates)) for system in systems}
        self._bounds = bounds
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for target in self._targets.values():
                starting.callback(target.close)
                target.start()
            self._open = starting.pop_all()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._open.close()

    def rows(self, kinds: Sequence[Kind], sizes_mb: Sequence[float], seconds: float) -> Iterator[Row]:
        """Measure every kind at every size, until the time is over."""
        deadline = time.monotonic() + seconds
        for size_mb in sizes_mb:
            for kind in kinds:
                if time.monotonic() > deadline:
                    return
                yield self._row(kind, size_mb)

    def _row(self, kind: Kind, size_mb: float) -> Row:
        frames = tuple(kind.make(round(size_mb * _MB)))
        measured = {
            system: target.measure(kind, frames, size_mb, self._bounds) for system, target in self._targets.items()
        }
        row = Row(kind, size_mb, measured, self._bounds.connections)
        if not row.is_near_miss:
            return row
        again = self._targets[OURS].measure(kind, frames, size_mb, self._bounds)
        second = row._replace(measured=measured | {OURS: again})
        return min(row, second, key=lambda each: (len(each.missed), each.measured[OURS].worst_ms))


def kinds_named(pattern: str) -> tuple[Kind, ...]:
    """Return the kinds whose name contains a match of the pattern. Raises ValueError when there is none."""
    found = tuple(kind for kind in KINDS if re.search(pattern, kind.name))
    if not found:
        raise ValueError(f"no kind's name matches {pattern!r}; --list prints all {len(KINDS)}")
    return found


def write_report(output: Path, rows: Sequence[Row], systems: Sequence[str], bounds: Bounds) -> None:
    """Write the page and the figures."""
    output.parent.mkdir(parents=True, exist_ok=True)
    title = f"Stalls: {bounds.connections} connections, {bounds.seconds:.0f} s a kind at most"
    output.with_suffix(".md").write_text(markdown(rows, systems, title))
    output.with_suffix(".json").write_text(as_json(rows))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="", metavar="PATTERN", help="a regular expression in the kind's name")
    parser.add_argument("--sizes", type=float, nargs="+", default=list(SIZES_MB), metavar="MB")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--seconds", type=float, default=SECONDS_PER_KIND, help="of each kind, size and system")
    parser.add_argument("--total-seconds", type=float, default=TOTAL_SECONDS, help="begin no other row after that")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="PATH", help="without .md and .json")
    parser.add_argument("--list", action="store_true", help="print the names of the kinds")
    return parser.parse_args()


def main() -> None:
    """The command line."""
    arguments = parse_arguments()
    try:
        kinds = kinds_named(arguments.kinds)
    except ValueError as unknown:
        sys.exit(str(unknown))
    if arguments.list:
        print("\n".join(kind.name for kind in kinds))
        return
    # An order to stop ends the brokers, too: Kafka's would outlive this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bounds = Bounds(arguments.connections, arguments.seconds)
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-stalls-") as directory,
        Campaign(Path(directory), arguments.systems, bounds) as campaign,
    ):
        for row in campaign.rows(kinds, arguments.sizes, arguments.total_seconds):
            rows.append(row)
            print(terminal_line(row, arguments.systems), flush=True)
            write_report(arguments.output, rows, arguments.systems, bounds)
    missed = sum(bool(row.missed) for row in rows)
    left = len(kinds) * len(arguments.sizes) - len(rows)
    print(f"{len(rows)} rows, {missed} missed a target, {left} not measured for want of time: {arguments.output}.md")
    sys.exit(1 if missed or left else 0)


if __name__ == "__main__":
    main()
