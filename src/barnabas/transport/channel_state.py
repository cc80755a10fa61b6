"""How far a channel has come, and how it ended: what a NetworkClient needs to know of a disconnect.

Written by the Selector's thread only. Kafka: ChannelState.
"""

from __future__ import annotations

from enum import Enum


class ChannelState(Enum):
    """Where a channel stands; for one that is gone, where it stood."""

    NOT_CONNECTED = "not connected"
    AUTHENTICATE = "authenticate"
    READY = "ready"
    EXPIRED = "expired"
    FAILED_SEND = "failed send"
    AUTHENTICATION_FAILED = "authentication failed"
    LOCAL_CLOSE = "local close"
