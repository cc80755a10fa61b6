"""A broker and a client start without what many never need: those modules are loaded when they are first used."""

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
    "barnabas.network.session_intake",
    "barnabas.rpc.client_channels",
    "barnabas.security.sasl.client",
    "barnabas.security.sasl.jaas",
    "barnabas.security.sasl.sasl_config",
    "barnabas.security.sasl.sasl_listener",
    "barnabas.security.sasl.server_authenticator",
    "barnabas.security.tls.key_stores",
    "barnabas.security.tls.tls_client",
    "barnabas.security.tls.tls_listener",
    "barnabas.storage.cleaner.cleaning",
    "barnabas.storage.cleaner.work",
    "crc32c",
    "email",
    "prometheus_client",
    "re2",
    "ssl",
)


def test_what_a_broker_imports_leaves_coordinators_logins_tls_and_extras_for_later() -> None:
    program = f"import sys, barnabas.broker.broker_server; print(*[name for name in {LATER!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == []


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
        "import sys, barnabas.clients.producer\n"
        "from barnabas.clients.settings.client_config import ClientConfig\n"
        "assert ClientConfig().network_config().channel_builder is None\n"
        f"print(*[name for name in {NOT_IN_PLAINTEXT!r} if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == []
