"""The options of the source and the sink for TLS and SASL: Kafka's names behind `kafka.`, as our clients know them.

Read by `source_options` and `sink_options` on the driver, and handed to the clients in each Python process of Spark's;
constants and a pure function, no lock. Passwords, keys and tokens are `Secret` values from here on: neither an error
nor a repr shows them. What the clients do not offer is rejected: a query must not run with less protection than its
options ask for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from barnabas.clients.settings.client_security import check_security
from barnabas.clients.settings.notation import check_values, settings_of
from barnabas.clients.settings.security_config import ClientSecurityConfig
from barnabas.security.sasl.mechanisms import MECHANISMS
from barnabas_spark.options.option_values import OptionError, OptionValues

SECURITY_SETTINGS = tuple(settings_of(ClientSecurityConfig))
SECURITY_OPTION_NAMES = tuple(f"kafka.{each.kafka_name}" for each in SECURITY_SETTINGS)

_KERBEROS = "Kerberos (GSSAPI) is not offered"
_JAVA_CLASS = "it names a class of Java's"
NOT_OFFERED = {
    "kafka.sasl.client.callback.handler.class": _JAVA_CLASS,
    "kafka.sasl.kerberos.kinit.cmd": _KERBEROS,
    "kafka.sasl.kerberos.service.name": _KERBEROS,
    "kafka.sasl.login.class": _JAVA_CLASS,
    "kafka.security.providers": _JAVA_CLASS,
    "kafka.ssl.engine.factory.class": _JAVA_CLASS,
    "kafka.ssl.keymanager.algorithm": "it chooses a part of Java's TLS",
    "kafka.ssl.protocol": "use kafka.ssl.enabled.protocols",
    "kafka.ssl.provider": _JAVA_CLASS,
    "kafka.ssl.trustmanager.algorithm": "it chooses a part of Java's TLS",
}
"""The options that no client of ours has, with the reason or what to use instead."""

_MECHANISMS_NOT_OFFERED = {
    "AWS_MSK_IAM": "Amazon MSK offers SCRAM-SHA-512 and TLS certificates (kafka.ssl.keystore.location) too",
    "GSSAPI": f"which is Kerberos; use {' or '.join(', '.join(MECHANISMS).rsplit(', ', 1))}",
}
"""Mechanisms that pages on Spark show, with what to use instead."""
_MSK_CLASSES = "software.amazon.msk.auth.iam."
_SHADED = re.compile(r"^(?:\w+\.)+(?=org\.apache\.kafka\.)")
"""What distributions of Spark put before the names of Kafka's classes: `kafkashaded.` in Databricks'."""

UNSECURED = ClientSecurityConfig()
"""The security of connections without options: none."""

_SETTING_NAME = re.compile(r"\b(" + "|".join(sorted((each.name for each in SECURITY_SETTINGS), reverse=True)) + r")\b")
"""A setting as our clients' errors name it. The longest names come first, because some begin with another."""


def refuse_mechanism(options: OptionValues) -> None:
    """Reject a login that no client of ours has. Raises OptionError, with what to use instead."""
    name = "kafka.sasl.mechanism"
    mechanism = (options.text(name) or "").strip().upper()
    instead = _MECHANISMS_NOT_OFFERED.get(mechanism)
    if instead is not None:
        raise OptionError(f"option {name!r} is {mechanism!r}, which is not offered: {instead}")
    for each in ("kafka.sasl.jaas.config", "kafka.sasl.client.callback.handler.class"):
        if _MSK_CLASSES in (options.text(each) or ""):
            # Never the value: a login context has passwords.
            msk = "AWS_MSK_IAM"
            raise OptionError(
                f"option {each!r} names a class for {msk}, which is not offered: {_MECHANISMS_NOT_OFFERED[msk]}"
            )


def connection_security(options: OptionValues) -> ClientSecurityConfig:
    """Return the security of the connections. Raises OptionError: the options are wrong, or contradict one another."""
    given: dict[str, Any] = {}
    for setting, name in zip(SECURITY_SETTINGS, SECURITY_OPTION_NAMES, strict=True):
        text = options.text(name)
        if text is None:
            continue
        if setting.type == "bool":
            given[setting.name] = options.boolean(name, default=False)
        elif setting.type == "int":
            given[setting.name] = options.integer(name, None, smallest=0)
        elif setting.type == "float":
            given[setting.name] = options.fraction(name)
        elif setting.type.startswith("Sequence"):
            given[setting.name] = tuple(each.strip() for each in text.split(",") if each.strip())
        else:
            # Kafka's clients trim what is given, passwords too.
            given[setting.name] = text.strip()
    handler = "sasl_login_callback_handler_class"
    if handler in given:
        given[handler] = _SHADED.sub("", given[handler])
    if "security_protocol" in given:
        given["security_protocol"] = given["security_protocol"].upper()
    security = ClientSecurityConfig(**given)
    security.hide_secrets()
    try:
        check_values(security)
        check_security(security)
    except ValueError as error:
        raise OptionError(as_option_names(str(error))) from None
    return security


def security_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of a source's options that secure its connections, for a sink at the same brokers."""
    return {name: value for name, value in options.items() if name.lower() in SECURITY_OPTION_NAMES}


def as_option_names(text: str) -> str:
    """Return a text about settings of our clients with the names of the options instead."""
    return _SETTING_NAME.sub(_as_option, text)


def _as_option(match: re.Match[str]) -> str:
    return f"kafka.{match[1].replace('_', '.')}"
