"""Passwords among a broker's stored settings: encoded, decoded, left out when they cannot be, and encoded again."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.security.password_encoder import StoredPasswords

NAME = "listener.name.external.ssl.key.password"
SETTINGS = {NAME: "hush", "num.io.threads": "9"}


def passwords(secret: str | None = None, old: str | None = None) -> StoredPasswords:
    given = {"password.encoder.secret": secret, "password.encoder.old.secret": old}
    return StoredPasswords(KafkaConfig.parse({name: value for name, value in given.items() if value is not None}))


def test_only_passwords_are_encoded() -> None:
    stored = passwords("a").encoded(SETTINGS)
    assert stored["num.io.threads"] == "9"
    assert "hush" not in stored[NAME]
    assert passwords("a").decoded(stored) == SETTINGS


@pytest.mark.parametrize(("secret", "reason"), [(None, "is not set"), ("b", "encoded with another secret")])
def test_what_cannot_be_decoded_is_left_out_and_logged(
    secret: str | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert passwords(secret).decoded(passwords("a").encoded(SETTINGS)) == {"num.io.threads": "9"}
    assert NAME in caplog.text
    assert reason in caplog.text


def test_nothing_is_stored_without_a_secret() -> None:
    with pytest.raises(ConfigError, match="Password encoder secret not configured"):
        passwords().encoded(SETTINGS)
    assert passwords().encoded({"num.io.threads": "9"}) == {"num.io.threads": "9"}


def test_a_new_secret_takes_over_from_the_old_one() -> None:
    stored = passwords("old").encoded(SETTINGS)
    again = passwords("new", "old").encoded_again(lambda: stored)
    assert again is not None
    assert passwords("new").decoded(again) == SETTINGS
    assert passwords("new", "old").encoded_again(lambda: again) is None
    assert passwords("new").encoded_again(lambda: stored) is None
    with pytest.raises(ConfigError, match=r"password.encoder.secret, which replaces it, is not"):
        passwords(None, "old")
