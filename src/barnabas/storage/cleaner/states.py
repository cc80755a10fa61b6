"""Where the cleaning of a partition stands, as a table: what each event leads to. Pure.

Asked by LogCleanerManager, under its lock. A partition that is neither cleaned nor paused has no state, None here.
Kafka: LogCleaningState and the transitions spread over LogCleanerManager.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class CleaningStep(Enum):
    """What a state is, but for the number of pauses."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    """Somebody waits for the cleaner to let go of the partition."""
    PAUSED = "paused"


class CleaningState(NamedTuple):
    """A state; `pauses` counts those who asked for a pause and have not ended it."""

    step: CleaningStep
    pauses: int = 0


class CleaningEvent(Enum):
    """What can happen to a partition."""

    BEGIN = "be cleaned"
    PAUSE = "be aborted and paused"
    RESUME = "be resumed"
    DONE = "be done"


IN_PROGRESS = CleaningState(CleaningStep.IN_PROGRESS)
ABORTED = CleaningState(CleaningStep.ABORTED)
PAUSED_ONCE = CleaningState(CleaningStep.PAUSED, 1)

TRANSITIONS: dict[tuple[CleaningStep | None, CleaningEvent], CleaningState | None] = {
    (None, CleaningEvent.BEGIN): IN_PROGRESS,
    (None, CleaningEvent.PAUSE): PAUSED_ONCE,
    (CleaningStep.IN_PROGRESS, CleaningEvent.PAUSE): ABORTED,
    (CleaningStep.IN_PROGRESS, CleaningEvent.DONE): None,
    (CleaningStep.ABORTED, CleaningEvent.DONE): PAUSED_ONCE,
}
"""All but those of a paused partition, which count."""


class IllegalCleaningEvent(Exception):
    """Such an event cannot happen in such a state: an error of the broker."""


def next_state(state: CleaningState | None, event: CleaningEvent) -> CleaningState | None:
    """The state that follows. Raises IllegalCleaningEvent."""
    if state is not None and state.step is CleaningStep.PAUSED:
        if event is CleaningEvent.PAUSE:
            return CleaningState(CleaningStep.PAUSED, state.pauses + 1)
        if event is CleaningEvent.RESUME:
            return CleaningState(CleaningStep.PAUSED, state.pauses - 1) if state.pauses > 1 else None
    else:
        step = state.step if state is not None else None
        if (step, event) in TRANSITIONS:
            return TRANSITIONS[step, event]
    now = f"{state.step.value}" if state is not None else "neither cleaned nor paused"
    raise IllegalCleaningEvent(f"Compaction cannot {event.value} since it is {now}.")
