"""The mechanisms whose logins have a user and a password, and the Java class that a login context names for each.

Read by the listeners of brokers and the settings of clients; immutable. Kafka: PlainLoginModule, ScramLoginModule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS

PLAIN: Final = "PLAIN"
LOGIN_MODULES: Final[Mapping[str, str]] = {PLAIN: "PlainLoginModule"} | dict.fromkeys(
    SCRAM_MECHANISMS, "ScramLoginModule"
)
"""Mechanism -> the class, without its package."""
