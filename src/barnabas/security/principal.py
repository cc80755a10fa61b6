"""A principal in its two parts: a type and a name. Connections and stores have it as one text, `User:alice`.

Used by handlers and clients, on any thread; immutable. Kafka: KafkaPrincipal, SecurityUtils.parseKafkaPrincipal.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USER: Final = "User"
"""The type of every principal that Kafka itself makes."""


class Principal(NamedTuple):
    """A principal; its text is that of the parts with a colon between them."""

    type: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Take a text apart at its first colon. Raises ValueError: there is none."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise malformed_principal(text)
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def malformed_principal(text: str) -> ValueError:
    """Return the error for a text that is no principal, in Kafka's words."""
    return ValueError(f"expected a string in format principalType:principalName but got {text}")
