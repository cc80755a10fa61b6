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
    "barnabas.broker.stages.consumer_group_coordination",
    "barnabas.broker.stages.group_coordinator_builder",
    "barnabas.broker.stages.transaction_coordinator_builder",
    "barnabas.coordinator.group.group_coordinator",
    "barnabas.coordinator.transaction.transaction_coordinator",
    "barnabas.faults",
    "barnabas.network.connections.session_intake",
    "barnabas.rpc.client_channels",
    "barnabas.security.sasl.client",
    "barnabas.security.sasl.jaas",
    "barnabas.security.sasl.sasl_config",
    "barnabas.security.sasl.sasl_listener",
    "barnabas.security.sasl.server_authenticator",
    "barnabas.security.tls.key_stores",
    "barnabas.security.tls.tls_contexts",
    "barnabas.security.tls.tls_listener",
    "barnabas.storage.cleaner.cleaning",
    "barnabas.storage.cleaner.work",
    "crc32c",
    "email",
    "prometheus_client",
    "re2",
    "ssl",
)


def loaded(preparation: str, names: tuple[str, ...]) -> list[str]:
    """Those of some modules that are there after a program."""
    program = f"import sys\n{preparation}\nprint(*[name for name in {names!r} if name in sys.modules])"
    return subprocess.check_output([sys.executable, "-c", program], text=True).split()


def test_what_a_broker_imports_leaves_coordinators_logins_tls_and_extras_for_later() -> None:
    assert loaded("import barnabas.broker.broker_server", LATER) == []


NOT_IN_PLAINTEXT = (
    "barnabas.config.broker_config_keys",
    "barnabas.rpc.client_channels",
    "barnabas.security.sasl.client.oauthbearer_client",
    "barnabas.security.sasl.client.plain_client",
    "barnabas.security.sasl.client.scram_client",
    "barnabas.security.sasl.jaas",
    "barnabas.security.sasl.login_context",
    "barnabas.security.tls",
    "ssl",
    "urllib.request",
)


def test_a_client_in_plaintext_leaves_tls_and_logins_for_later() -> None:
    program = (
        "import barnabas.clients.producer\n"
        "from barnabas.clients.settings.client_config import ClientConfig\n"
        "assert ClientConfig().network_config().channel_builder is None"
    )
    assert loaded(program, NOT_IN_PLAINTEXT) == []


def test_a_pipeline_file_is_read_without_spark_and_clients() -> None:
    """By `barnabas pipeline status`, `stop` and `check --no-spark`."""
    names = ("pyspark", "pyarrow", "numpy", "pyiceberg", "barnabas.clients", "ssl", "urllib.request")
    assert loaded("import barnabas_spark.pipeline.pipeline_file", names) == []
