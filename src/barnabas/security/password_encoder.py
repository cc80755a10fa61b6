"""The encryption of passwords that the store keeps as settings of a broker, in Kafka's form, which Kafka reads too.

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:<base64>,
    iterations:4096,encryptedPassword:<base64>,passwordLength:8,initializationVector:<base64>

StoredPasswords is one object a broker: ConfigAdmin calls it on request handlers' threads, DynamicBrokerConfig on a
scheduler's, which may take some milliseconds for the derivation of a key. Immutable. Needs the package cryptography
(extra `tls`). Kafka: EncryptingPasswordEncoder, IvParamsEncoder, GcmParamsEncoder; of DynamicBrokerConfig
toPersistentProps, fromPersistentProps, maybeReEncodePasswords.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.config.config_error import ConfigError
from barnabas.config.config_values import ConfigValues
from barnabas.config.dynamic_settings import is_password
from barnabas.config.secret import Secret
from barnabas.config.setting import Settings, setting

logger = logging.getLogger(__name__)

SECRET: Final = "password.encoder.secret"  # noqa: S105 - the name of a setting
OLD_SECRET: Final = "password.encoder.old.secret"  # noqa: S105
CBC: Final = "AES/CBC/PKCS5Padding"
GCM: Final = "AES/GCM/NoPadding"
_HASHES: Final = {f"PBKDF2WithHmacSHA{size}": f"sha{size}" for size in (1, 224, 256, 384, 512)}
_KEY_LENGTHS: Final = (128, 192, 256)
_SALT_BYTES: Final = 256
_BLOCK_BYTES: Final = 16
_GCM_VECTOR_BYTES: Final = 12
_GCM_TAG_BITS: Final = 128


class UndecodablePassword(Exception):
    """The error for a text that this secret does not decode. It quotes nothing of the text."""


class PasswordEncoderConfig(Settings):
    """All settings. They are those of new passwords: an encoded password says how it was encoded."""

    secret: Secret | None = setting(SECRET, Secret.of)
    old_secret: Secret | None = setting(OLD_SECRET, Secret.of)
    key_factory: str = setting("password.encoder.keyfactory.algorithm", lambda value: value or "PBKDF2WithHmacSHA512")
    cipher: str = setting("password.encoder.cipher.algorithm")
    key_length_bits: int = setting("password.encoder.key.length")
    iterations: int = setting("password.encoder.iterations")


class _Parameters(NamedTuple):
    """The way in which one password is encrypted. vector: the initialization vector."""

    key_factory: str
    cipher: str
    key_length_bits: int
    iterations: int
    salt: bytes
    vector: bytes


class PasswordEncoder:
    """An encoder with one secret."""

    __slots__ = ("_config", "_secret")

    def __init__(self, secret: Secret, config: PasswordEncoderConfig) -> None:
        """Raises ConfigError: an algorithm or the key's length is unknown, or the package is missing."""
        for name, value, known in (
            ("password.encoder.keyfactory.algorithm", config.key_factory, tuple(_HASHES)),
            ("password.encoder.cipher.algorithm", config.cipher, (CBC, GCM)),
            ("password.encoder.key.length", config.key_length_bits, _KEY_LENGTHS),
        ):
            if value not in known:
                raise ConfigError.invalid(name, value, f"known are {', '.join(map(str, known))}")
        try:
            import cryptography  # noqa: F401, PLC0415 - only stored passwords need the extra
        except ImportError:
            raise ConfigError(f"{SECRET} needs the package cryptography: pip install 'barnabas[tls]'", SECRET) from None
        self._secret = secret
        self._config = config

    def encode(self, password: str) -> str:
        """Return a password in the form that is stored; each time another text."""
        config = self._config
        vector_bytes = _GCM_VECTOR_BYTES if config.cipher == GCM else _BLOCK_BYTES
        parameters = _Parameters(
            config.key_factory,
            config.cipher,
            config.key_length_bits,
            config.iterations,
            secrets.token_bytes(_SALT_BYTES),
            secrets.token_bytes(vector_bytes),
        )
        fields: dict[str, str | int] = {
            "keyFactoryAlgorithm": parameters.key_factory,
            "cipherAlgorithm": parameters.cipher,
            "keyLength": parameters.key_length_bits,
            "salt": _base64(parameters.salt),
            "iterations": parameters.iterations,
            "encryptedPassword": _base64(self._encrypt(parameters, password.encode())),
            "passwordLength": _java_length(password),
            "initializationVector": _base64(parameters.vector),
        }
        if parameters.cipher == GCM:
            fields["authenticationTagLength"] = _GCM_TAG_BITS
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, encoded: str) -> str:
        """Return the password of a stored text. Raises UndecodablePassword: another secret, or no such text."""
        pairs = (part.partition(":") for part in encoded.split(","))
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        try:
            password = self._decrypt(_parameters_of(fields), _bytes_of(fields["encryptedPassword"])).decode()
            is_whole = _java_length(password) == int(fields["passwordLength"])
        except (KeyError, ValueError) as error:
            raise UndecodablePassword("it is not in Kafka's form, or it was encoded with another secret") from error
        if not is_whole:
            raise UndecodablePassword("it was encoded with another secret")
        return password

    def _key(self, parameters: _Parameters) -> bytes:
        return hashlib.pbkdf2_hmac(
            _HASHES[parameters.key_factory],
            self._secret.reveal().encode(),
            parameters.salt,
            parameters.iterations,
            parameters.key_length_bits // 8,
        )

    def _encrypt(self, parameters: _Parameters, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.padding import PKCS7  # noqa: PLC0415

        key = self._key(parameters)
        if parameters.cipher == GCM:
            return AESGCM(key).encrypt(parameters.vector, data, None)
        padder = PKCS7(8 * _BLOCK_BYTES).padder()
        padded = padder.update(data) + padder.finalize()
        encryptor = Cipher(algorithms.AES(key), modes.CBC(parameters.vector)).encryptor()
        return encryptor.update(padded) + encryptor.finalize()

    def _decrypt(self, parameters: _Parameters, data: bytes) -> bytes:
        """Raises ValueError: the data were not encrypted with this key."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        from cryptography.hazmat.primitives.padding import PKCS7  # noqa: PLC0415

        key = self._key(parameters)
        if parameters.cipher == GCM:
            try:
                return AESGCM(key).decrypt(parameters.vector, data, None)
            except InvalidTag:
                raise ValueError("wrong tag") from None
        decryptor = Cipher(algorithms.AES(key), modes.CBC(parameters.vector)).decryptor()
        padded = decryptor.update(data) + decryptor.finalize()
        unpadder = PKCS7(8 * _BLOCK_BYTES).unpadder()
        return unpadder.update(padded) + unpadder.finalize()


def _parameters_of(fields: Mapping[str, str]) -> _Parameters:
    """Raises KeyError, ValueError: a parameter is missing or unknown."""
    parameters = _Parameters(
        fields["keyFactoryAlgorithm"],
        fields["cipherAlgorithm"],
        int(fields["keyLength"]),
        int(fields["iterations"]),
        _bytes_of(fields["salt"]),
        _bytes_of(fields["initializationVector"]),
    )
    known = parameters.key_factory in _HASHES and parameters.cipher in (CBC, GCM)
    if not known or parameters.key_length_bits not in _KEY_LENGTHS or parameters.iterations < 1:
        raise ValueError("unknown parameters")
    if parameters.cipher == GCM and int(fields["authenticationTagLength"]) != _GCM_TAG_BITS:
        raise ValueError("unknown length of the tag")
    return parameters


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _java_length(text: str) -> int:
    """Return the length as Java counts it, in units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2


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
