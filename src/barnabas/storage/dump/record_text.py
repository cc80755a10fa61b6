"""The text of a record's key and value in a dump, and the functions that make it of an internal topic's records.

Used by `log_file`; made by decoders of the layers above, which know the formats of their topics. Immutable.
Kafka: DumpLogSegments.MessageParser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class RecordText(NamedTuple):
    """A record's key and payload; None is not printed."""

    key: str | None
    payload: str | None


RecordDecoder: TypeAlias = Callable[[bytes | None, bytes | None], RecordText]
"""Returns the text of a key and a value. Raises DecodeError, UnicodeDecodeError for what its topic cannot hold."""
