"""Decodes and encodes again with kafka-python 3: what its codec makes of our bytes.

Imported by the differential test. Only the versions that its schemas declare are asked for: older ones decode by
accident.
"""

from __future__ import annotations

import importlib
from typing import Any

from kafka.protocol.api_message import ApiMessage

_FAMILIES = ("admin", "consumer", "metadata", "producer", "sasl")


def _classes() -> dict[str, Any]:
    """Message name -> kafka-python's class."""
    for family in _FAMILIES:
        importlib.import_module(f"kafka.protocol.{family}")
    found: dict[str, Any] = {}
    waiting = list(ApiMessage.__subclasses__())
    while waiting:
        candidate = waiting.pop()
        waiting.extend(candidate.__subclasses__())
        if "_v" not in candidate.__name__:
            found[candidate.__name__] = candidate
    return found


CLASSES = _classes()


def encode_again(name: str, version: int, body: bytes) -> bytes | None:
    """What kafka-python writes after reading `body`; None when it doesn't know this version."""
    message = CLASSES.get(name)
    if message is None:
        return None
    lowest, highest = message.valid_versions
    if not lowest <= version <= highest:
        return None
    # The base class's methods: some subclasses add a client's concerns, such as reading errors as version 0.
    decoded = ApiMessage.decode.__func__(message, body, version=version)
    decoded._header = None  # kafka-python 3.0 forgets to set it, and then can't encode what it decoded
    return bytes(ApiMessage.encode(decoded, version=version))
