"""When tasks that send let others run, and when the sending thread hears of their records."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.clients.aio.send_waits import SendingTurns

RECORD_BYTES = 100
TURN_RECORDS = 128


async def _send(turns: SendingTurns, records: int, wakeups: list[int], record_bytes: int = RECORD_BYTES) -> None:
    """Send records as the producer does: each one begins a batch, which the sending thread should hear of."""
    for number in range(records):
        if turns.is_pause_due:
            await turns.pause()
        turns.note_record(record_bytes)
        turns.wake_soon(lambda number=number: wakeups.append(number))  # type: ignore[misc]


def test_records_of_one_turn_wake_the_thread_once() -> None:
    async def main() -> None:
        wakeups: list[int] = []
        turns = SendingTurns(asyncio.get_running_loop())
        await asyncio.gather(*(_send(turns, 2, wakeups) for _ in range(3)))
        assert len(wakeups) == 1
        await _send(turns, 1, wakeups)
        assert len(wakeups) == 1
        await asyncio.sleep(0)
        assert len(wakeups) == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("record_bytes", "turns_together"),
    [pytest.param(RECORD_BYTES, 9, id="the longest delay"), pytest.param(1_000, 3, id="the most bytes")],
)
def test_a_task_that_goes_on_sending_delays_the_wake_up_but_not_for_ever(
    record_bytes: int, turns_together: int
) -> None:
    async def main() -> None:
        wakeups: list[int] = []
        turns = SendingTurns(asyncio.get_running_loop())
        await _send(turns, turns_together * TURN_RECORDS, wakeups, record_bytes)
        assert not wakeups
        await _send(turns, 1, wakeups, record_bytes)
        assert len(wakeups) == 1

    asyncio.run(main())


def test_a_task_that_awaits_something_else_has_its_records_sent_in_the_next_turn() -> None:
    async def main() -> None:
        wakeups: list[int] = []
        turns = SendingTurns(asyncio.get_running_loop())
        await _send(turns, 2 * TURN_RECORDS, wakeups)
        assert not wakeups
        await asyncio.sleep(0)
        assert len(wakeups) == 1

    asyncio.run(main())


def test_a_task_that_is_cancelled_in_its_pause_delays_nothing() -> None:
    async def main() -> None:
        wakeups: list[int] = []
        turns = SendingTurns(asyncio.get_running_loop())
        task = asyncio.create_task(_send(turns, TURN_RECORDS + 1, wakeups))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert len(wakeups) == 1

    asyncio.run(main())
