"""The controller's counts: times of events in the queue, rates and times by state, unclean elections.

Made by `controller`, updated on its thread only, read by any thread.
Kafka: kafka.controller.ControllerStats, ControllerEventManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.controller.controller_state import RATE_AND_TIME_METRICS, ControllerState
from barnabas.metrics.histogram import DurationTimer, Histogram
from barnabas.metrics.meter import Meter


class ControllerStats:
    """The counts. `state`: the state of the controller now. `event_queue_time_ms`: Kafka's EventQueueTimeMs."""

    def __init__(self) -> None:
        self.state = ControllerState.IDLE
        self.event_queue_time_ms = Histogram()
        self.timers: Final[Mapping[ControllerState, DurationTimer]] = {
            state: DurationTimer() for state in RATE_AND_TIME_METRICS
        }
        self.unclean_elections = Meter()
