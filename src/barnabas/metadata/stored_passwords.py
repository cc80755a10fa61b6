"""Passwords among the settings of this broker that the store keeps: encoded on the way there, decoded on the way back.

One object a broker, made of the settings of its file: at the start with a secret, else for the first password.
Immutable. `encoded` and `decoded` are called by ConfigAdmin on
request handlers' threads and by DynamicBrokerConfig on a scheduler's thread, `encoded_again` once, at the start.
Kafka: DynamicBrokerConfig.toPersistentProps, fromPersistentProps, maybeReEncodePasswords.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.dynamic_settings import is_password
from barnabas.security.password_encoder import (
    OLD_SECRET,
    SECRET,
    PasswordEncoder,
    PasswordEncoderConfig,
    UndecodablePassword,
)

logger = logging.getLogger(__name__)


class StoredPasswords:
    """The passwords of one broker. Without `password.encoder.secret` none can be stored or read."""

    def __init__(self, config: ConfigValues) -> None:
        """Raises ConfigError: the settings of the encoder are wrong, or there is an old secret and no new one."""
        settings = PasswordEncoderConfig.from_kafka_config(config)
        secret, old = settings.secret, settings.old_secret
        if old is not None and secret is None:
            raise ConfigError(f"{OLD_SECRET} is given, and {SECRET}, which replaces it, is not", OLD_SECRET)
        self._encoder = None if secret is None else PasswordEncoder(secret, settings)
        self._old_encoder = None if old is None else PasswordEncoder(old, settings)

    def encoded(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return settings as they are stored. Raises ConfigError: there is a password, and no secret."""
        return {name: self._encode(value) if is_password(name) else value for name, value in settings.items()}

    def _encode(self, password: str) -> str:
        if self._encoder is None:
            raise ConfigError("Password encoder secret not configured", SECRET)
        return self._encoder.encode(password)

    def decoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return stored settings with their passwords; without those that cannot be decoded, which are logged."""
        settings = {}
        for name, value in stored.items():
            if not is_password(name):
                settings[name] = value
                continue
            if self._encoder is None:
                logger.error("The stored password %s is ignored: %s is not set", name, SECRET)
                continue
            try:
                settings[name] = self._encoder.decode(value)
            except UndecodablePassword as error:
                logger.error("The stored password %s is ignored: %s", name, error)  # noqa: TRY400 as it says
        return settings

    def encoded_again(self, read_stored: Callable[[], Mapping[str, str]]) -> dict[str, str] | None:
        """Return stored settings whose passwords the old secret decodes, encoded with the new one; None if none are.

        read_stored: called only with an old secret, since each start asks.
        """
        if self._old_encoder is None:
            return None
        stored = read_stored()
        settings = dict(stored)
        for name, value in stored.items():
            if is_password(name):
                try:
                    settings[name] = self._encode(self._old_encoder.decode(value))
                except UndecodablePassword:
                    logger.debug("The stored password %s is not encoded with the old secret", name)
        return settings if settings != stored else None
