"""What a server keeps of a user's password for SCRAM: salt, StoredKey, ServerKey and iterations.

Made where a password is set, read by each login. The text is Kafka's form of a user's settings, so data directories and
tools agree: `salt=c2FsdA==,stored_key=...,server_key=...,iterations=4096`. Pure; immutable; no lock.
Kafka: ScramCredential, ScramCredentialUtils, ScramFormatter.generateCredential.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.security.sasl.scram_mechanism import MIN_ITERATIONS, ScramMechanism
from barnabas.security.sasl.scram_messages import BASE64

SALT_BYTES: Final = 20

_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")
_BASE64: Final = re.compile(BASE64)


class ScramCredential(NamedTuple):
    """One credential. Its keys are secret: with them a server can be impersonated, and a password guessed."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_password(
        cls,
        mechanism: ScramMechanism,
        password: str,
        iterations: int = MIN_ITERATIONS,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> ScramCredential:
        """Make the credential of a password, with a new salt. Takes milliseconds."""
        salt = random_bytes(SALT_BYTES)
        return cls.of_salted_password(
            mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations
        )

    @classmethod
    def of_salted_password(
        cls, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Make the credential of a SaltedPassword, the form in which AlterUserScramCredentials sends a password."""
        return cls(salt, mechanism.stored_key(salted_password), mechanism.server_key(salted_password), iterations)

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """Parse Kafka's form. Raises ValueError: a field is missing, unknown, repeated or malformed."""
        fields: dict[str, str] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in _FIELDS or name in fields:
                raise ValueError(f"A SCRAM credential has the fields {', '.join(_FIELDS)}, each once")
            fields[name] = value
        if len(fields) != len(_FIELDS):
            raise ValueError(f"A SCRAM credential has the fields {', '.join(_FIELDS)}, each once")
        iterations = fields["iterations"]
        if not (iterations.isascii() and iterations.isdigit()):
            raise ValueError("The iterations of a SCRAM credential are a number")
        salt, stored_key, server_key = (_decoded(fields[name]) for name in _FIELDS[:3])
        return cls(salt, stored_key, server_key, int(iterations))

    def to_text(self) -> str:
        """Return Kafka's form."""
        salt, stored_key, server_key = (b64encode(each).decode() for each in self[:3])
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, keys hidden)"


def _decoded(value: str) -> bytes:
    # The message has no value: it is a secret.
    if not _BASE64.fullmatch(value):
        raise ValueError("The salt and the keys of a SCRAM credential are base64")
    return b64decode(value)
