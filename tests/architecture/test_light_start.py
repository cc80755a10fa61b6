"""A broker starts without what many brokers never need: those modules are loaded when they are first used."""

from __future__ import annotations

import subprocess
import sys

LATER = (
    "barnabas.api.handlers.acls",
    "barnabas.api.handlers.alter_configs",
    "barnabas.api.handlers.classic_groups",
    "barnabas.api.handlers.offsets",
    "barnabas.api.handlers.topics",
    "barnabas.api.handlers.transactions",
    "barnabas.broker.consumer_group_coordination",
    "barnabas.broker.group_coordinator_builder",
    "barnabas.broker.transaction_coordinator_builder",
    "barnabas.coordinator.group.group_coordinator",
    "barnabas.coordinator.transaction.transaction_coordinator",
    "barnabas.faults",
    "barnabas.storage.cleaner.cleaning",
    "barnabas.storage.cleaner.work",
    "crc32c",
    "email",
    "prometheus_client",
    "re2",
)


def test_what_a_broker_imports_leaves_coordinators_and_extras_for_later() -> None:
    program = f"import sys, barnabas.broker.broker_server; print(*[name for name in {LATER!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == []
