"""The encoder of stored passwords: it reads what Kafka's has written, and refuses what is wrong without a quotation."""

from __future__ import annotations

import pytest

from barnabas.config.config_error import ConfigError
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.secret import Secret
from barnabas.security.password_encoder import CBC, GCM, PasswordEncoder, PasswordEncoderConfig, UndecodablePassword

SECRET = Secret("the secret of the encoder")
OF_KAFKA_CBC = (
    "initializationVector:cb94tfmIHt22JQYJnFMJ+Q==,keyLength:128,salt:56yMwMLSo/6vzd+4TYjpPXF/RwDFjKNMEmI"
    "NQdZa7yoMfqW7m0e5nfhDHc9/c/NPIu9zqjeNyDpCoM6pIHQadCXSr3aFlt2VhHQZtWsWxd1Fxph1N4GPIR7nTuyCyXz5+cPcCtP"
    "NCg1JrB2W3rshzK+k2McRehK3kSn4YVLaWE0vxzOk0Fwz4FpvIOHjjQIkB874oxZDQ2nPEkXv7rppLCaiJMDF6usxKFT563AaS6q"
    "RTTX0+pam+VttuEuQ/nzQtOfslgNW/BiZOliA1TuZkHx/wYVvqaG3bBZ9tEQODJ5m/btEQgA7kyCMUh9gsITySuxJkSws7B7rJ18"
    "3j7ZYPg==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4"
    "096,passwordLength:5,encryptedPassword:KbHBcdCQSeIWFEq4DOUBog=="
)
OF_KAFKA_GCM = (
    "initializationVector:geLUYf+rsFYgIL79,keyLength:128,salt:6XTULlj4ID24q98kngCMVVOoFQD2MedHYSdpNpL/Qwo"
    "2qVYVpc36T6pUsw0MdO6k4pG3MplkX2ZziKcoNjVM8G5P08iQRKqzrTjO4l1P6Wuv8tRSZ+/SV5QyW4I1UNJqSQPnJ5MS2ihCUQB"
    "uMaOmf3NeXJZPhYkgG23tEYHVzn9JNyjCdRQfDst5opFZYzdXrgD5CBHVeAixOXTA3QyDL5BuG6M1k4E2ptMLqlzFI3q7ywSHZB0"
    "eSpgh5MIlqZrBGmdjTO2hAw4J0xqt7VspPwK67Yxu5X59z5KpkNy793o08hdzbD0H633mk1alk47lQy17QWRBPI2fgtYSWVvLUg="
    "=,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength"
    ":128,iterations:4096,passwordLength:5,encryptedPassword:DZK2aYgBO+8nycBCirJ9xDHXzVMU"
)
"""What Apache Kafka 3.9 makes of `pw: 1`."""


def encoder(secret: Secret = SECRET, **settings: str) -> PasswordEncoder:
    config = KafkaConfig.parse({name.replace("_", "."): value for name, value in settings.items()})
    return PasswordEncoder(secret, PasswordEncoderConfig.from_kafka_config(config))


@pytest.mark.parametrize("encoded", [OF_KAFKA_CBC, OF_KAFKA_GCM])
def test_kafka_s_passwords_are_read(encoded: str) -> None:
    assert encoder().decode(encoded) == "pw: 1"


@pytest.mark.parametrize("cipher", [CBC, GCM])
@pytest.mark.parametrize("password", ["", "x", "exactly 16 bytes", "umlaut ä, clef \U0001d11e"])
def test_a_password_is_read_again_and_never_looks_the_same(cipher: str, password: str) -> None:
    ours = encoder(password_encoder_cipher_algorithm=cipher, password_encoder_key_length="256")
    first, second = ours.encode(password), ours.encode(password)
    assert first != second
    assert "keyLength:256" in first
    # How a password was encoded stands in its text, and not in the settings.
    assert encoder().decode(first) == encoder().decode(second) == password


@pytest.mark.parametrize(
    "encoded",
    [
        "hush",
        OF_KAFKA_CBC.replace("passwordLength:5", "passwordLength:6"),
        OF_KAFKA_CBC.replace("iterations:4096", "iterations:0"),
        OF_KAFKA_CBC.replace("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
        OF_KAFKA_CBC.replace("encryptedPassword:", "encryptedPassword:hush"),
        OF_KAFKA_GCM.replace("authenticationTagLength:128", "authenticationTagLength:96"),
        OF_KAFKA_GCM.replace("PBKDF2WithHmacSHA512", "PBKDF2WithHmacSHA256"),
    ],
)
def test_what_cannot_be_read_is_refused_without_a_quotation(encoded: str) -> None:
    with pytest.raises(UndecodablePassword) as caught:
        encoder().decode(encoded)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("encoded", [OF_KAFKA_CBC, OF_KAFKA_GCM])
def test_another_secret_reads_nothing(encoded: str) -> None:
    with pytest.raises(UndecodablePassword, match="another secret"):
        encoder(Secret("another one")).decode(encoded)


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("password.encoder.cipher.algorithm", "DES", "AES/CBC/PKCS5Padding, AES/GCM/NoPadding"),
        ("password.encoder.key.length", "64", "128, 192, 256"),
        ("password.encoder.keyfactory.algorithm", "X", "PBKDF2WithHmacSHA512"),
    ],
)
def test_unknown_algorithms_stop_the_start(name: str, value: str, known: str) -> None:
    with pytest.raises(ConfigError, match=known):
        PasswordEncoder(SECRET, PasswordEncoderConfig.from_kafka_config(KafkaConfig.parse({name: value})))
