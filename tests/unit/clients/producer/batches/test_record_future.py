"""A record's future does what a Future does, whether a thread looks before it is set, afterwards, or both."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError, as_completed, wait
from typing import Any

import pytest

from barnabas.clients.producer.batches.deliveries import UNREAD, RecordFuture
from barnabas.clients.producer.producer_record import RecordMetadata

METADATA = RecordMetadata("t", 0, 7, 1_000, -1, 3)
ERROR = ValueError("the broker does not want it")

AnyFuture = Future[RecordMetadata]
Act = Callable[[AnyFuture, list[Any]], Any]


def take_no_notice(_future: AnyFuture, _seen: list[Any]) -> None:
    pass


def add_callback(future: AnyFuture, seen: list[Any]) -> None:
    future.add_done_callback(lambda done: seen.append((done is future, done.done())))


ACTS: dict[str, Act] = {
    "nothing": take_no_notice,
    "set_result": lambda future, _: future.set_result(METADATA),
    "set_exception": lambda future, _: future.set_exception(ERROR),
    "cancel": lambda future, _: future.cancel(),
    "run": lambda future, _: future.set_running_or_notify_cancel(),
    "callback": add_callback,
    "result": lambda future, _: future.result(0),
    "exception": lambda future, _: future.exception(0),
    "state": lambda future, _: (future.done(), future.running(), future.cancelled()),
    "wait": lambda future, _: [len(each) for each in wait([future], 0)],
    "as_completed": lambda future, _: [each is future for each in as_completed([future], 0)],
    "repr": lambda future, _: repr(future).partition("state=")[2],
}


def story(future: AnyFuture, acts: tuple[str, ...]) -> list[Any]:
    """What a program sees that does these things one after another."""
    seen: list[Any] = []
    for act in acts:
        try:
            seen.append(ACTS[act](future, seen))
        except (TimeoutError, CancelledError, InvalidStateError, ValueError, RuntimeError) as error:
            # The text of these errors may name the object.
            seen.append(type(error))
    return seen


@pytest.mark.parametrize("first", ACTS)
def test_every_story_of_three_acts_ends_as_with_a_plain_future(first: str) -> None:
    for second, third in itertools.product(ACTS, ACTS):
        acts = (first, second, third, "state", "result", "exception")
        assert story(RecordFuture(threading.RLock()), acts) == story(Future(), acts), acts


def test_threads_that_wait_before_and_after_all_see_the_result() -> None:
    lock = threading.RLock()
    futures = [RecordFuture(lock) for _ in range(2_000)]
    seen: list[list[RecordMetadata]] = [[] for _ in range(4)]

    def ask(number: int) -> None:
        seen[number] += [future.result(60) for future in (futures if number % 2 else reversed(futures))]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(seen))]
    for thread in threads:
        thread.start()
    for offset, future in enumerate(futures):
        future.set_result(METADATA._replace(offset=offset))
    for thread in threads:
        thread.join()
    for answers in seen:
        assert sorted(answer.offset for answer in answers) == list(range(len(futures)))


def test_it_can_be_awaited() -> None:
    future = RecordFuture(threading.RLock())

    async def ask() -> RecordMetadata:
        asyncio.get_running_loop().call_soon(future.set_result, METADATA)
        return await asyncio.wrap_future(future)

    assert asyncio.run(ask()) == METADATA


def test_the_unread_future_takes_every_result_and_keeps_none() -> None:
    for _ in range(2):
        UNREAD.set_result(METADATA)
        UNREAD.set_exception(ERROR)
    assert not UNREAD.done()
