"""How far a channel has come, and how it ended: what a NetworkClient needs to know of a disconnect.

Written by the Selector's thread only; no lock. Kafka: ChannelState.
"""

from __future__ import annotations

from enum import Enum


class ChannelState(Enum):
    """Where a channel stands; for one that is gone, where it stood.

    A channel that is closing (`OpenChannels.is_closing`), because its peer has finished or was refused and there is an
    answer to send first, keeps the state in which closing began.
    """

    NOT_CONNECTED = "not connected"
    AUTHENTICATE = "authenticate"
    READY = "ready"
    EXPIRED = "expired"
    FAILED_SEND = "failed send"
    AUTHENTICATION_FAILED = "authentication failed"
    LOCAL_CLOSE = "local close"
    OUT_OF_MEMORY = "out of memory"
    """Given up because other channels needed the memory it held, and it was the slowest."""
