"""What the controller counts: how long events lie in the queue, how often and how long it does what, unclean elections.

Made by `controller`, updated on its thread only, read by any.
Kafka: kafka.controller.ControllerStats, and the metrics of ControllerEventManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.controller.controller_state import RATE_AND_TIME_METRICS, ControllerState
from barnabas.metrics.histogram import Histogram, Timer
from barnabas.metrics.meter import Meter


class ControllerStats:
    """`state`: what the controller is doing now. `event_queue_time_ms`: Kafka's EventQueueTimeMs, in milliseconds."""

    def __init__(self) -> None:
        self.state = ControllerState.IDLE
        self.event_queue_time_ms = Histogram()
        self.timers: Final[Mapping[ControllerState, Timer]] = {state: Timer() for state in RATE_AND_TIME_METRICS}
        self.unclean_elections = Meter()
