"""The stages and ends of a channel, by which a client interprets a disconnect.

Written by the Selector's thread only; no lock. Kafka: ChannelState.
"""

from __future__ import annotations

from enum import Enum


class ChannelState(Enum):
    """The stage of an open channel; for a closed channel, the stage in which it ended or the reason.

    A channel that is closing (`OpenChannels.is_closing`), because its peer has finished or was rejected and there is an
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
    """Closed because other channels needed the memory that this one held, and this one was the slowest."""
