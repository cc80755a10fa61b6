"""The cleaning states of a partition as a table: the state that follows each event. Pure.

Used by LogCleanerManager, under its lock. A partition that is neither cleaned nor paused has no state, None here.
Kafka: LogCleaningState and the transitions spread over LogCleanerManager.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class CleaningStep(Enum):
    """The kind of a state."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"
    """A caller waits for the cleaner to stop working on the partition."""
    PAUSED = "paused"


class CleaningState(NamedTuple):
    """A state. pauses: how many callers have paused the partition and not resumed it."""

    step: CleaningStep
    pauses: int = 0


class CleaningEvent(Enum):
    """An event in the cleaning of a partition."""

    BEGIN = "be cleaned"
    PAUSE = "be aborted and paused"
    RESUME = "be resumed"
    DONE = "be done"


IN_PROGRESS = CleaningState(CleaningStep.IN_PROGRESS)
ABORTED = CleaningState(CleaningStep.ABORTED)
PAUSED_ONCE = CleaningState(CleaningStep.PAUSED, 1)

#                 BEGIN                      DONE
#   no state ------------------> IN_PROGRESS -----> no state
#      |                             | PAUSE
#      | PAUSE                       v       DONE
#      |                          ABORTED --------> PAUSED (1)
#      v         PAUSE
#   PAUSED (1) --------> PAUSED (2) ...; RESUME takes one pause back, from PAUSED (1) to no state
TRANSITIONS: dict[tuple[CleaningStep | None, CleaningEvent], CleaningState | None] = {
    (None, CleaningEvent.BEGIN): IN_PROGRESS,
    (None, CleaningEvent.PAUSE): PAUSED_ONCE,
    (CleaningStep.IN_PROGRESS, CleaningEvent.PAUSE): ABORTED,
    (CleaningStep.IN_PROGRESS, CleaningEvent.DONE): None,
    (CleaningStep.ABORTED, CleaningEvent.DONE): PAUSED_ONCE,
}
"""All transitions except those of a paused partition, which count pauses."""


class IllegalCleaningEvent(Exception):
    """The event cannot happen in the state: a programming error in the broker."""


def next_state(state: CleaningState | None, event: CleaningEvent) -> CleaningState | None:
    """Return the state that follows. Raises IllegalCleaningEvent when the event cannot happen in this state."""
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
