"""Checks a client's security settings, and chooses its channels.

Called with the settings when a client is made, by its thread; no state, no lock. Most clients have neither TLS nor a
login, so what makes these is imported when it is used.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from barnabas.clients.settings.security_config import PLAINTEXT, SECURITY_PROTOCOLS, ClientSecurityConfig

if TYPE_CHECKING:
    from barnabas.rpc.client_channels import ClientChannels


def check_security(config: ClientSecurityConfig) -> None:
    """Check the settings against one another. Raises ValueError, with what would be right."""
    for each in fields(ClientSecurityConfig):
        prefix = each.name.partition("_")[0].upper()
        if prefix not in ("SSL", "SASL") or getattr(config, each.name) == each.default:
            continue
        if prefix not in config.security_protocol:
            # Kafka ignores such settings: the user would believe in a protection that is not there.
            raise ValueError(
                f"{each.name} is given, and security_protocol is {config.security_protocol}: choose"
                f" {' or '.join(name for name in SECURITY_PROTOCOLS if prefix in name)}"
            )
    if "SASL" in config.security_protocol:
        from barnabas.clients.settings.secured_channels import sasl_login

        sasl_login(config)


def channel_builder(config: ClientSecurityConfig, client_id: str) -> ClientChannels | None:
    """Return the maker of channels; None for plaintext ones. Reads the key and trust stores.

    Raises ConfigError, a ValueError: a store is missing or cannot be used, or a setting is wrong.
    """
    if config.security_protocol == PLAINTEXT:
        return None
    from barnabas.clients.settings.secured_channels import client_channels

    return client_channels(config, client_id)
