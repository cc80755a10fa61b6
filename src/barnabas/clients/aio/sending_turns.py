"""The turns of an event loop in which tasks send: when a task lets others run, and when the sending thread is woken.

Owned by the event loop of its asyncio producer; no lock.

A task whose sends never wait would keep the loop to itself, so it pauses after some records. The sending thread is
woken in the loop's next turn, because records that are sent in one turn leave together. A task that only pauses goes on
sending in that turn. The thread is woken some turns later then, when more records have come into the batches that were
begun: each wake-up costs a request for every leader and switches between two threads, whatever the number of records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_RECORDS_BETWEEN_PAUSES = 128
_LONGEST_DELAY_TURNS = 8
_MOST_DELAYED_BYTES = 1 << 18


class SendingTurns:
    """The turns of one producer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._records = 0
        """Since the last pause."""
        self._bytes = 0
        """Since the last wake-up."""
        self._pausing = 0
        self._is_waking = False
        self._delay_turns = 0

    @property
    def is_pause_due(self) -> bool:
        """Whether the next task that sends lets the others run first."""
        return self._records >= _RECORDS_BETWEEN_PAUSES

    async def pause(self) -> None:
        """Let the other tasks run once, the one that takes the results among them."""
        self._records = 0
        self._pausing += 1
        try:
            await asyncio.sleep(0)
        finally:
            self._pausing -= 1

    def note_record(self, record_bytes: int) -> None:
        """Count a record that is about to be queued."""
        self._records += 1
        self._bytes += record_bytes

    def wake_soon(self, wakeup: Callable[[], None]) -> None:
        """Call `wakeup` in one of the loop's next turns."""
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon(self._wake, wakeup)

    def _wake(self, wakeup: Callable[[], None]) -> None:
        if self._pausing and self._bytes < _MOST_DELAYED_BYTES and self._delay_turns < _LONGEST_DELAY_TURNS:
            self._delay_turns += 1
            self._loop.call_soon(self._wake, wakeup)
            return
        self._is_waking = False
        self._bytes = self._delay_turns = 0
        wakeup()
