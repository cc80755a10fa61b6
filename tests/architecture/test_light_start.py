"""What starts often starts without what it seldom needs: those modules are loaded when they are first used."""

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
    "barnabas.coordinator.group.assignors.built_in",
    "barnabas.coordinator.group.consumer.consumer_group",
    "barnabas.coordinator.group.consumer.consumer_group_service",
    "barnabas.faults",
    "re2",
    "prometheus_client",
)


def loaded(module: str, names: tuple[str, ...]) -> list[str]:
    """Those of some modules that the import of another one brings."""
    program = f"import sys, {module}; print(*[name for name in {names!r} if name in sys.modules])"
    return subprocess.check_output([sys.executable, "-c", program], text=True).split()


def test_what_a_broker_imports_leaves_consumer_groups_and_extras_for_later() -> None:
    assert loaded("barnabas.broker.broker_server", LATER) == []


def test_a_pipeline_file_is_read_without_spark_and_clients() -> None:
    """By `barnabas pipeline status`, `stop` and `check --no-spark`."""
    names = ("pyspark", "pyarrow", "numpy", "pyiceberg", "barnabas.clients")
    assert loaded("barnabas_spark.pipeline.pipeline_file", names) == []
