"""The rule what may run at once on a network thread. It has this one owner; each bound stands here or is named here.

A request that runs at once saves two thread hand-overs, which cost more than most requests. But every other connection
of that network thread waits, so what runs there must never block and must end within about a millisecond
(decisions/0013, decisions/0085). It is decided from facts that cost nothing, before anything else is done:

1. **Before the login** a client may send what a login needs: ApiVersions, SaslHandshake and SaslAuthenticate in frames
   of LOGIN_FRAME_BYTES; longer tokens of a mechanism that has them (`security.sasl.mechanisms`).
2. **The bytes of the frame**: up to `Brief.limit_bytes` a frame is decoded at once. Of a longer one the header alone is
   read, and a handler thread decodes it (`api.large_requests`). Header and body have at most MOST_TAGGED_FIELDS tagged
   fields a struct (`protocol.codec_runtime`).
3. **The elements of all arrays**, where the bytes of a frame say little about them (Produce): up to FEW_ELEMENTS are
   decoded at once. The decoder counts them while it decodes, and gives up (ManyElements).
4. **The mark of the API** (`Brief`): from which version on its requests are brief.
5. **The budget**: a handler adds up what a request would cost, by the costs below, and calls `check_cost` before it has
   begun. Above the budget, NeedsHandlerThread hands the request over.
6. **Knowledge of a lower layer** that has no unit: an assignment that may have to be computed
   (`ConsumerGroupService.may_take_long`), a batch that has to be decompressed (`LogValidator.look_ahead`). Its handler
   calls `hand_over`. The facts about batches are listed below.

For example: Metadata of 3 topics with 100 partitions each costs 300 * 5 us = 1.5 ms. The request came in 60 bytes, so
bounds 2 to 4 let it pass; bound 5 raises NeedsHandlerThread; `Apis.handle` queues it for a request handler, where
`request.brief` is unset and no check is made.

What a handler thread does has bounds too, because it shares the processor and the memory (`api.large_requests`):
MOST_ELEMENTS an array, DECODED_PER_BYTE of memory for the decoded request, one request of more than HEAVY_BYTES and
one of more than HUGE_BYTES at a time.

Marks and costs are read by `Handler`s and handler families, on whichever thread runs them; immutable. Kafka has no such
thing: all its requests go through the queue, after its network thread has decoded them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from barnabas.protocol.codec_runtime import DECODED_PER_BYTE, FEW_ELEMENTS, MOST_ELEMENTS, MOST_TAGGED_FIELDS
from barnabas.storage.validation import validator
from barnabas.transport.channel.authenticator import LOGIN_FRAME_BYTES

__all__ = (
    "DECODED_PER_BYTE",
    "FEW_ELEMENTS",
    "LOGIN_FRAME_BYTES",
    "MOST_ELEMENTS",
    "MOST_TAGGED_FIELDS",
)

K = TypeVar("K", bound=Hashable)

MAX_FRAME_BYTES: Final = 2**31 - 1
BRIEF_LIMIT_BYTES: Final = 8 * 1024
"""About a millisecond: 500 partitions of ListOffsets, 240 of a Fetch."""
HEAVY_BYTES: Final = 128 * 1024
"""A longer request is heavy, unless its bytes are records: it may take a handler thread 0.1 s and more."""
HUGE_BYTES: Final = 1024 * 1024
"""A longer one is huge. Of heavy and of huge requests one each is decoded and handled at a time, in the whole process:
the other handler threads stay free, two threads at most compute beside the network threads, and a client of 10,000
partitions, whose requests have 0.2 to 0.7 MB, does not wait behind a hostile one's of 20 MB."""
LOOKED_UP_AT_ONCE: Final = 10_000
"""Items of a request that one call enters into a table: a millisecond or two."""
NEVER: Final = 1 << 15
"""The version since which an API is brief that is never brief: above every version."""

MOST_ANSWERED_SETTINGS: Final = 1_000_000
"""Of one DescribeConfigs: the settings of 20,000 topics. A few bytes ask for some hundred settings with their texts."""

# The costs, in microseconds, decide on the thread that runs a request, and never on its answer.
BUDGET_US: Final = 1_000
AUTHORIZED_NAME_US: Final = 3
"""Of each name that is authorized, where a short request stands for any number of them."""
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


# -- batches

# Which batches are appended at once, by facts that cost nothing. Each is looked at before anything is decompressed and
# before anything of the request is appended. What is above a bound is done by a request handler:
#
#     | fact                                    | at once, at most         | why                                      |
#     | bytes of the request                    | AT_ONCE_BYTES            | checksum, copies, the write              |
#     | batches of the request                  | AT_ONCE_BATCHES          | an append takes 0.1 ms, however small    |
#     | records of a batch, by its header       | AT_ONCE_RECORDS          | each record is read                      |
#     | flush policy of the topic               | no `flush.messages`      | an fsync takes milliseconds              |
#     | codec                                   | none, or the topic's own | another one means decompressing it       |
#     | bytes of a compressed batch             | AT_ONCE_COMPRESSED_BYTES | what it decompresses to shows only then  |
#     | members or blocks of a compressed batch | AT_ONCE_PIECES           | an empty one takes 5 us, and 5 bytes     |
#     | records of all batches, decompressed    | AT_ONCE_BYTES            | 9 KB of zstd may be 200 MB               |
#
# The last two show only during decompression, which ends at the bound. Before it come the size (`max.message.bytes`)
# and the checksum: a batch that breaks those rules is refused at once. Versions before v3 are never brief. On a
# handler, records of more than 1 MB are read in a stream, one such batch at a time in the process (`LogValidator`).
# The bounds that concern one batch belong to `storage.validation.validator`, which applies them.

AT_ONCE_BATCHES: Final = 16
AT_ONCE_BYTES: Final = validator.AT_ONCE_BYTES
AT_ONCE_RECORDS: Final = validator.MANY_RECORDS


class Brief(NamedTuple):
    """The mark of an API: its requests of `since` and later versions, of up to `limit_bytes`, are brief.

    Longer ones are decoded elsewhere. With a limit above BRIEF_LIMIT_BYTES the elements are counted while a request is
    decoded, since its bytes do not bound them.
    """

    since: int = 0
    limit_bytes: int = BRIEF_LIMIT_BYTES


BRIEF: Final = Brief()
NOT_BRIEF: Final = Brief(since=NEVER)
UNDECODED: Final = Brief(since=NEVER, limit_bytes=-1)
"""Of an API whose requests are decoded by handler threads, however short they are (`api.registry`)."""
"""Decoded at once where it is short, because that takes no longer than a hand-over, and always queued."""


def each_once(items: Iterable[K]) -> dict[K, None]:
    """Return the items in their order, each once, made in slices.

    One call for 350,000 names would keep the GIL from the network threads for 0.1 s. A dict, because the collector of
    cycles leaves dicts of plain values alone, and looks at each item of a set.
    """
    found: dict[K, None] = {}
    left = iter(items)
    while part := list(islice(left, LOOKED_UP_AT_ONCE)):
        found.update(dict.fromkeys(part))
    return found


class NeedsHandlerThread(Exception):
    """Raised by the handler of a brief request before it has begun: the work is too much for a network thread.

    `Apis.handle` queues the request for a request handler, and calls the same handler there with `brief` unset.
    """

    def queue(self, request: Any, handle: Callable[[Any], None]) -> None:
        """Have a request handler call `handle(request)`. The request is one of `api.request`, which builds on this."""
        request.channel.resume(lambda: handle(request))


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
