"""The campaign: security changes in every way that the rules know, while clients write and read over SASL_SSL.

    python -m tests.security.rotation.campaign --seconds 600 --seed 7

Two kinds of clients. The steady ones, a writer and a reader of each of three libraries, must not notice anything: each
keeps its connections and goes on after every change, and every record is there once and in order. The others
(`changing`) are those whose own password, entries, token or user changes: what they were told was written is there. An
independent reader judges both at the end. Called by `make rotation` and by test_rotation.py, on their thread.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from barnabas.clients.admin import AclOperation, NewTopic, ResourceType
from tests.chaos.ledger import Ledger
from tests.security.conftest import make_certificates
from tests.security.rotation import rules
from tests.security.rotation.brokers import one_broker, three_brokers
from tests.security.rotation.changing import ChangingClients
from tests.security.rotation.inventory import check_acknowledged, check_exactly_once, connections_to
from tests.security.rotation.load import LIBRARIES, PARTITIONS, LoadReader, LoadWriter, Login
from tests.security.rotation.place import CLIENTS, Place, entry, eventually

SESSION_MS = 3_000
SETTLED_SECONDS = 1.0
PASSWORD = "steady-knows-this"
CHANGES = len(rules.RULES) + 4
"""The number of changes of a round."""


class Steady(NamedTuple):
    """The clients of one library, whose security does not change."""

    library: str
    writer: LoadWriter
    reader: LoadReader


class Summary(NamedTuple):
    """What a campaign has seen. longest_gap_seconds: between two acknowledgements of a steady writer."""

    changes: int
    steady_records: int
    changing_records: int
    longest_gap_seconds: float


class RotationCampaign:
    """The changes of one place, in an order that the seed decides."""

    def __init__(self, place: Place, seed: int, session_ms: int = SESSION_MS) -> None:
        """session_ms: that of the place."""
        self._place = place
        self._chance = random.Random(seed)
        self._changing = ChangingClients(place, session_ms, seed)
        self._steady: list[Steady] = []
        self._connections: set[int] = set()
        self._changes = 0

    def run(self, *, rounds: int = 1, seconds: float = 0, report: bool = False) -> Summary:
        """Make every change so many times at least, for so long at least."""
        try:
            self._start_steady()
            deadline = time.monotonic() + seconds
            done = 0
            while done < rounds or time.monotonic() < deadline:
                for change in self._chance.sample(self._all_changes(), len(self._all_changes())):
                    self._change(change)
                    if report:
                        print(f"{self._changes} changes, {change.__name__}: {self._state()}", flush=True)
                done += 1
            return self._judge()
        finally:
            self._changing.abandon()
            for each in self._steady:
                each.writer.abandon()
                each.reader.stop()

    def _all_changes(self) -> list[Callable[[], None]]:
        def rule(check: rules.Rule) -> Callable[[], None]:
            def check_rule() -> None:
                check(self._place)

            check_rule.__name__ = f"rule of {check.__name__}"
            return check_rule

        clients = self._changing
        return [*map(rule, rules.RULES), clients.passwords, clients.entries, clients.tokens, clients.users]

    # -- the steady clients

    def _start_steady(self) -> None:
        for number, library in enumerate(LIBRARIES):
            name = f"steady-{library}"
            self._place.add_user(name, PASSWORD)
            self._place.add_entries(
                entry(name, AclOperation.WRITE, name),
                entry(name, AclOperation.READ, name),
                entry(name, AclOperation.READ, name, ResourceType.GROUP),
            )
            with self._place.admin() as admin:
                admin.create_topics([NewTopic(name, PARTITIONS, self._place.replication_factor)])
            login = Login(self._place.servers(), str(self._place.certificates.trust_pem), name, PASSWORD)
            writer = LoadWriter(LIBRARIES[library], login, Ledger(name, PARTITIONS), number)
            reader = LoadReader(LIBRARIES[library], login, name)
            self._steady.append(Steady(library, writer, reader))
            writer.start()
            reader.start()
        self._await_progress()
        self._connections = self._settled_connections()

    def _settled_connections(self) -> set[int]:
        """The connections of the steady clients, when they make no more: each library has its way to get there."""
        seen: set[int] = set()
        since = time.monotonic()

        def is_settled() -> bool:
            nonlocal seen, since
            found = self._current_connections()
            if found != seen:
                seen, since = found, time.monotonic()
            return time.monotonic() - since > SETTLED_SECONDS

        eventually(is_settled)
        assert len(seen) >= 2 * len(self._steady)
        return seen

    def _current_connections(self) -> set[int]:
        return connections_to({self._place.port_of(number, CLIENTS) for number in self._place.numbers})

    def _await_progress(self) -> None:
        """Wait until each writer has written, and each reader read, to each partition; nobody else disturbs them."""
        before = [(self._acknowledged(each), len(each.reader.values)) for each in self._steady]

        def have_gone_on() -> bool:
            for each in self._steady:
                each.writer.check()
                each.reader.check()
            return all(
                all(now > then for now, then in zip(self._acknowledged(each), written, strict=True))
                and len(each.reader.values) > read
                for each, (written, read) in zip(self._steady, before, strict=True)
            )

        eventually(have_gone_on)

    def _acknowledged(self, steady: Steady) -> list[int]:
        return [len(partition.acknowledged) for partition in steady.writer.ledger.partitions]

    # -- changes

    def _change(self, change: Callable[[], None]) -> None:
        change()
        self._changes += 1
        self._await_progress()
        for each in self._steady:
            assert not each.writer.failures, f"{each.library}: {each.writer.failures} deliveries failed"
        closed = self._connections - self._current_connections()
        assert not closed, f"{len(closed)} of {len(self._connections)} connections closed after {change.__name__}"

    def _state(self) -> str:
        written = {each.library: each.writer.ledger.acknowledged for each in self._steady}
        return f"{written} acknowledged, longest gap {self._longest_gap():.2f} s"

    def _longest_gap(self) -> float:
        return max(each.writer.longest_gap_seconds for each in self._steady)

    # -- the end

    def _judge(self) -> Summary:
        for each in self._steady:
            each.writer.stop()
        for each in self._steady:
            sent = {value for partition in each.writer.ledger.partitions for value in partition.sent}
            eventually(partial(self._has_read, each.reader, sent))
            each.reader.stop()
        return Summary(
            self._changes,
            sum(check_exactly_once(self._place, each.writer.ledger) for each in self._steady),
            sum(check_acknowledged(self._place, ledger) for ledger in self._changing.ledgers),
            self._longest_gap(),
        )

    @staticmethod
    def _has_read(reader: LoadReader, values: set[bytes]) -> bool:
        reader.check()
        return values <= set(reader.values)


def main() -> None:
    """Run the campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    arguments = parser.parse_args()
    start = one_broker if arguments.brokers == 1 else three_brokers
    with tempfile.TemporaryDirectory(prefix="barnabas-rotation-") as directory:
        certificates = make_certificates(Path(directory))
        with start(certificates, Path(directory), SESSION_MS) as place:
            summary = RotationCampaign(place, arguments.seed).run(seconds=arguments.seconds, report=True)
    print(summary)


if __name__ == "__main__":
    main()
