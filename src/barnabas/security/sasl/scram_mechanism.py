"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512: names, mathematics and credentials (RFC 5802, RFC 7677).

Called by both sides of a login, and where a user's password becomes a credential. Immutable values, pure but for the
salt; any thread, no lock.

    SaltedPassword = PBKDF2(password, salt, iterations)          slow: once, where the credential is made
    ClientKey      = HMAC(SaltedPassword, "Client Key")          only the client knows it
    StoredKey      = H(ClientKey)                                kept by the server
    ServerKey      = HMAC(SaltedPassword, "Server Key")          kept by the server
    ClientProof    = ClientKey XOR HMAC(StoredKey, AuthMessage)  sent by the client
    ServerSignature = HMAC(ServerKey, AuthMessage)               sent by the server

The server checks a proof with two fast operations: H(ClientProof XOR HMAC(StoredKey, AuthMessage)) must be StoredKey.
AuthMessage is the text of the whole exchange, with both nonces, so a message of another login proves nothing.

Kafka: ScramMechanism, ScramFormatter, ScramCredential, ScramCredentialUtils.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from barnabas.security.sasl.scram_messages import BASE64

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The bounds of Kafka for the iterations of a credential. The upper one bounds the work of a login for its client."""
SALT_BYTES: Final = 20

_CREDENTIAL_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")
_BASE64: Final = re.compile(BASE64)


class ScramFormatter(NamedTuple):
    """One mechanism, and its mathematics. name: in SASL. digest: in hashlib. code: in the requests of KIP-554."""

    name: str
    digest: str
    code: int

    @property
    def digest_bytes(self) -> int:
        """The size in bytes of a digest, and so of every key, proof and signature."""
        return hashlib.new(self.digest).digest_size

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return SaltedPassword. Takes milliseconds. As in Kafka, the password is not normalized by SASLprep."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)

    def stored_key(self, salted_password: bytes) -> bytes:
        """Return StoredKey."""
        return self._hash(self._client_key(salted_password))

    def server_key(self, salted_password: bytes) -> bytes:
        """Return ServerKey."""
        return hmac.digest(salted_password, b"Server Key", self.digest)

    def client_proof(self, salted_password: bytes, auth_message: bytes) -> bytes:
        """Return the ClientProof that a client sends."""
        signature = hmac.digest(self.stored_key(salted_password), auth_message, self.digest)
        return _xor(self._client_key(salted_password), signature)

    def is_valid_proof(self, stored_key: bytes, auth_message: bytes, proof: bytes) -> bool:
        """Return whether the sender of a proof knows the password. Compares in constant time."""
        if len(proof) != len(stored_key):
            return False
        client_key = _xor(proof, hmac.digest(stored_key, auth_message, self.digest))
        return hmac.compare_digest(self._hash(client_key), stored_key)

    def server_signature(self, server_key: bytes, auth_message: bytes) -> bytes:
        """Return the ServerSignature, by which a client sees that the server has its credential."""
        return hmac.digest(server_key, auth_message, self.digest)

    def _hash(self, data: bytes) -> bytes:
        # The constructor by name costs a third of `hashlib.new`.
        digest: bytes = getattr(hashlib, self.digest)(data).digest()
        return digest

    def _client_key(self, salted_password: bytes) -> bytes:
        return hmac.digest(salted_password, b"Client Key", self.digest)


SCRAM_SHA_256: Final = ScramFormatter("SCRAM-SHA-256", "sha256", 1)
SCRAM_SHA_512: Final = ScramFormatter("SCRAM-SHA-512", "sha512", 2)
SCRAM_MECHANISMS: Final = {mechanism.name: mechanism for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512)}
"""Name -> mechanism."""


class ScramCredential(NamedTuple):
    """What a server keeps of a user's password: made where the password is set, read by each login.

    Its keys are secret: with them a server can be impersonated, and a password guessed. The text is Kafka's form of a
    user's settings, so data directories and tools agree:
    `salt=c2FsdA==,stored_key=...,server_key=...,iterations=4096`.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_password(
        cls,
        mechanism: ScramFormatter,
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
        cls, mechanism: ScramFormatter, salted_password: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Make the credential of a SaltedPassword, the form in which AlterUserScramCredentials sends a password."""
        return cls(salt, mechanism.stored_key(salted_password), mechanism.server_key(salted_password), iterations)

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """Parse Kafka's form. Raises ValueError: a field is missing, unknown, repeated or malformed."""
        fields: dict[str, str] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition("=")
            if name not in _CREDENTIAL_FIELDS or name in fields:
                raise ValueError(f"A SCRAM credential has the fields {', '.join(_CREDENTIAL_FIELDS)}, each once")
            fields[name] = value
        if len(fields) != len(_CREDENTIAL_FIELDS):
            raise ValueError(f"A SCRAM credential has the fields {', '.join(_CREDENTIAL_FIELDS)}, each once")
        iterations = fields["iterations"]
        if not (iterations.isascii() and iterations.isdigit()):
            raise ValueError("The iterations of a SCRAM credential are a number")
        salt, stored_key, server_key = (_decoded(fields[name]) for name in _CREDENTIAL_FIELDS[:3])
        return cls(salt, stored_key, server_key, int(iterations))

    def to_text(self) -> str:
        """Return Kafka's form."""
        salt, stored_key, server_key = (b64encode(each).decode() for each in self[:3])
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, keys hidden)"


class TokenCredential(NamedTuple):
    """The credential of a delegation token. owner: the name of the principal that it stands for."""

    owner: str
    credential: ScramCredential
    expires_ms: int


class ScramCredentials(Protocol):
    """The credentials that logins are checked against. Any thread may ask; no call waits."""

    def of_user(self, mechanism: ScramFormatter, user: str) -> ScramCredential | None:
        """Return a user's credential; None if there is none."""

    def of_token(self, mechanism: ScramFormatter, token_id: str) -> TokenCredential | None:
        """Return the credential of a delegation token that is valid now; None if there is none."""


def _xor(first: bytes, second: bytes) -> bytes:
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).to_bytes(len(first), "big")


def _decoded(value: str) -> bytes:
    # The message has no value: it is a secret.
    if not _BASE64.fullmatch(value):
        raise ValueError("The salt and the keys of a SCRAM credential are base64")
    return b64decode(value)
