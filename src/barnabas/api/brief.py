"""The limits of brief requests: those that may run at once on a network thread.

Marks and costs are read by `Handler`s and handler families, on whichever thread runs them; immutable.

A request that runs at once saves two thread hand-overs, which cost more than most requests. But every other connection
of that network thread waits meanwhile, so what runs there must never block and must end within about a millisecond
(decisions/0013). Three checks keep that promise, each later and more exact than the one before:

1. The mark of an API (`Brief`): from which version on, and up to how many bytes, its requests are brief.
2. The budget: a handler adds up what a request would cost, by the costs below, and calls `check_cost` before it has
   begun. Above the budget, NeedsHandlerThread hands the request over.
3. Knowledge of a lower layer that has no unit: a batch that has to be decompressed (`LogValidator.look_ahead`), an
   assignment that may have to be computed (`ConsumerGroupService.may_take_long`). Its handler calls `hand_over`.

For example: Metadata of 3 topics with 100 partitions each costs 300 * 5 us = 1.5 ms. The request came in 60 bytes, so
check 1 let it pass; check 2 raises NeedsHandlerThread; `Apis.handle` queues it for a request handler, where
`request.brief` is unset and no check is made.

Kafka has no such thing: all its requests go through the queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn

MAX_FRAME_BYTES: Final = 2**31 - 1
BRIEF_LIMIT_BYTES: Final = 8 * 1024
"""About a millisecond: 500 partitions of ListOffsets, 240 of a Fetch."""

# The costs, in microseconds, decide on the thread that runs a request, and never on its answer.
BUDGET_US: Final = 1_000
COMMITTED_OFFSET_US: Final = 10
COORDINATOR_KEY_US: Final = 5
FETCHED_GROUP_US: Final = 8
FETCHED_OFFSET_US: Final = 2
JOINING_MEMBER_US: Final = 20
"""Of each member of a classic group when one joins, leaves or syncs: all of them may be answered at once."""
LEAVING_MEMBER_US: Final = 5
METADATA_PARTITION_US: Final = 5
SESSION_PARTITION_US: Final = 4
"""Of each partition of a fetch session: a short request may stand for any number of them."""


class Brief(NamedTuple):
    """The mark of an API: its requests of `since` and later versions, of up to `limit_bytes`, are brief."""

    since: int = 0
    limit_bytes: int = BRIEF_LIMIT_BYTES


BRIEF: Final = Brief()
BRIEF_OF_ANY_SIZE: Final = Brief(limit_bytes=MAX_FRAME_BYTES)
NOT_BRIEF: Final = Brief(limit_bytes=-1)


class NeedsHandlerThread(Exception):
    """Raised by the handler of a brief request before it has begun: the work is too much for a network thread.

    `Apis.handle` queues the request for a request handler, and calls the same handler there with `brief` unset.
    """


def hand_over() -> NoReturn:
    """Have the request run on a request handler's thread. Raises NeedsHandlerThread, always."""
    raise NeedsHandlerThread


def check_cost(cost_us: int) -> None:
    """Hand the request over if its work, in microseconds, is above the budget. Raises NeedsHandlerThread then."""
    if cost_us > BUDGET_US:
        raise NeedsHandlerThread


def check_costs(costs_us: Iterable[int]) -> None:
    """Hand the request over if the sum is above the budget, which is found out with as few costs as possible.

    Raises NeedsHandlerThread when the sum is above the budget.
    """
    left = BUDGET_US
    # The costs may come from a generator over very many topics: it is left as soon as the budget is spent.
    for cost_us in costs_us:
        left -= cost_us
        if left < 0:
            raise NeedsHandlerThread
