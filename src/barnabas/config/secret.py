"""A value that is never shown: passwords and private keys, between the settings and the function that needs them.

Made by the config classes of security; immutable, so any thread reads it. Kafka: Password.
"""

from __future__ import annotations


class Secret:
    """A text that neither `str`, `repr` nor an exception's text shows; `reveal` returns it to the part that uses it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def of(cls, text: str | None) -> Secret | None:
        """Return the secret of a setting; None if the setting is not given."""
        return cls(text) if text else None

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "[hidden]"
