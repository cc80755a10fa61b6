"""A fault plan: what happens to which requests, as a test writes it and as a line of JSON carries it.

Made by the test kit, which rejects a wrong plan at once, and made again by the broker from JSON (`control_messages`)
with the same checks. Immutable and pure. For example, "every tenth produce to `orders` fails":

    fault_plan(Error("NOT_LEADER_OR_FOLLOWER"), api="Produce", topic="orders", calls=Every(10))

An action has a `when`: "before" the request is handled, which then never happens unless the action is a Delay, or
"after", at the moment when the broker would hand the answer over. A produce with acks=all, a fetch that waits for
records and a join of a group reach that moment when their wait is over. With `Drop("after")` on Produce:

    acks=1, acks=all   the records are appended (and replicated), then the connection closes without the answer
    acks=0             the records are appended, then the connection closes

Calls are counted from 1. A draw by chance depends on the seed and the number of the call alone, so the same calls are
hit in every run:

    calls    1  2  3  4  5  6  7
    Nth(3)         x
    First(3) x  x  x
    Every(3)       x        x
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from barnabas.config.config_error import nearest_hint
from barnabas.faults.named_topics import names_topics
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.message_index import MESSAGES

# -- actions: what a fault does to a request

When: TypeAlias = Literal["before", "after"]
"""Before the request is handled, or after it, in place of the answer."""
MAX_DELAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Delay:
    """A wait of `time_ms` milliseconds, on no thread: before the request is handled, or before its answer is sent.

    Requests behind it on the same connection wait too, because answers keep the order of the requests. The broker's
    timer counts whole milliseconds, so that the wait may end less than a millisecond early.
    Raises ValueError unless the time is from 1 ms to a day.
    """

    time_ms: int
    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)
        if not _is_whole(self.time_ms) or not 1 <= self.time_ms <= MAX_DELAY_MS:
            raise ValueError(f"a delay takes from 1 to {MAX_DELAY_MS} whole milliseconds, not {self.time_ms!r}")


@dataclass(frozen=True, slots=True)
class Error:
    """The answer that says `code`, a name or a number of Kafka's, for the whole request and each of its items.

    The answer has the form that Apache Kafka gives it (getErrorResponse). A client that waits for no answer (acks=0)
    loses its connection, as it does in Kafka. Raises ValueError for a code that Kafka does not have, and for NONE.
    """

    code: ErrorCode | str | int
    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)
        if self.error_code is ErrorCode.NONE:
            raise ValueError("NONE is no error: an answer with it says that all went well")

    @property
    def error_code(self) -> ErrorCode:
        """The code as an ErrorCode. Raises ValueError for a name or a number that Kafka does not have."""
        code = self.code
        if isinstance(code, str):
            if code in ErrorCode.__members__:
                return ErrorCode[code]
            raise ValueError(f"Kafka has no error {code!r}{nearest_hint(code, ErrorCode.__members__)}")
        try:
            return ErrorCode(code)
        except ValueError:
            raise ValueError(
                f"Kafka has no error code {code!r}: give its name, such as 'NOT_LEADER_OR_FOLLOWER', or its number"
            ) from None


@dataclass(frozen=True, slots=True)
class _WithoutValue:
    when: When = "before"

    def __post_init__(self) -> None:
        _check_when(self.when)


@dataclass(frozen=True, slots=True)
class Drop(_WithoutValue):
    """The end of the connection in place of the answer. Answers to earlier requests of the connection still leave."""


@dataclass(frozen=True, slots=True)
class BlackHole(_WithoutValue):
    """No answer, ever: the connection stays open, and requests behind this one on it are not read."""


@dataclass(frozen=True, slots=True)
class Kill(_WithoutValue):
    """The end of the broker's process by SIGKILL. `b.start()` starts the broker again."""


Action: TypeAlias = Delay | Error | Drop | BlackHole | Kill
ACTIONS: Final = (Delay, Error, Drop, BlackHole, Kill)


def _check_when(when: object) -> None:
    """Check the moment of an action. Raises ValueError unless it is "before" or "after"."""
    if when not in get_args(When):
        raise ValueError(f"`when` is 'before' or 'after', not {when!r}")


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


# -- calls: which of the matching requests are hit, by their number from 1 on

_DRAW_BITS: Final = 53  # those that a float holds exactly


@dataclass(frozen=True, slots=True)
class All:
    """Every call."""

    def includes(self, call: int) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True)
class Nth:
    """The call of this number, and no other. Raises ValueError for a number below 1."""

    number: int

    def __post_init__(self) -> None:
        _check_number("Nth", self.number)

    def includes(self, call: int) -> bool:
        """Return whether `call` is the one."""
        return call == self.number


@dataclass(frozen=True, slots=True)
class First:
    """The first so many calls. Raises ValueError for a number below 1."""

    number: int

    def __post_init__(self) -> None:
        _check_number("First", self.number)

    def includes(self, call: int) -> bool:
        """Return whether `call` is one of the first."""
        return call <= self.number


@dataclass(frozen=True, slots=True)
class Every:
    """Each call whose number is a multiple: `Every(10)` hits the tenth, the twentieth and so on.

    Raises ValueError for a number below 1.
    """

    number: int

    def __post_init__(self) -> None:
        _check_number("Every", self.number)

    def includes(self, call: int) -> bool:
        """Return whether the number of `call` is a multiple."""
        return call % self.number == 0


@dataclass(frozen=True, slots=True)
class Chance:
    """Each call with this probability, by draws that the seed determines.

    Raises ValueError unless the probability is above 0 and at most 1, and the seed a whole number.
    """

    probability: float
    seed: int = 0

    def __post_init__(self) -> None:
        if type(self.probability) not in (int, float) or not 0 < self.probability <= 1:
            raise ValueError(f"a probability is above 0 and at most 1, not {self.probability!r}")
        if type(self.seed) is not int:
            raise ValueError(f"a seed is a whole number, not {self.seed!r}")

    def includes(self, call: int) -> bool:
        """Return the draw for `call`."""
        # A hash and not a generator: a draw must not depend on how many were made before, since a broker that is
        # started again continues to count where the last one ended.
        digest = blake2b(f"{self.seed}:{call}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 64 - _DRAW_BITS) / (1 << _DRAW_BITS) < self.probability


Calls: TypeAlias = All | Nth | First | Every | Chance
CALLS: Final = (All, Nth, First, Every, Chance)


def _check_number(name: str, number: int) -> None:
    """Check the number that a choice takes. Raises ValueError unless it is a whole number from 1 on."""
    if type(number) is not int or number < 1:
        raise ValueError(f"{name} takes a whole number from 1, not {number!r}")


# -- plans

Api: TypeAlias = str | int
"""An API as a test writes it: Kafka's name (`"Produce"`, `"PRODUCE"`) or its key."""
_KIND: Final = "kind"


class RequestFacts(NamedTuple):
    """The facts of a request that plans ask for. topics: names the topics in it, which only some plans need."""

    api_key: int
    client_id: str | None
    topics: Callable[[], Collection[str]]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """An action, the requests it is meant for, and which of them it hits. `fault_plan` makes it of a test's words."""

    action: Action
    apis: tuple[ApiKey, ...]
    """Empty: all APIs."""
    client_id: str | None
    """None: all clients."""
    topic: str | None
    """None: whatever topics the request names."""
    calls: Calls

    def matches(self, request: RequestFacts) -> bool:
        """Return whether the plan is meant for the request, whichever call it is."""
        if self.apis and request.api_key not in self.apis:
            return False
        if self.client_id is not None and request.client_id != self.client_id:
            return False
        return self.topic is None or self.topic in request.topics()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as values that JSON has. `from_json` makes the same plan of them."""
        action = asdict(self.action)
        if isinstance(self.action, Error):
            action["code"] = self.action.error_code.name
        return {
            "action": {_KIND: type(self.action).__name__, **action},
            "api": [key.value for key in self.apis],
            "client_id": self.client_id,
            "topic": self.topic,
            "calls": {_KIND: type(self.calls).__name__, **asdict(self.calls)},
        }


def fault_plan(
    action: Action,
    *,
    api: Api | Iterable[Api] | None = None,
    client_id: str | None = None,
    topic: str | None = None,
    calls: Calls | None = None,
) -> FaultPlan:
    """Make a plan. api: one or several; None: all. calls: which matching requests are hit; None: every one.

    Raises ValueError for an API that Kafka does not have, or a topic with an API whose requests name none; TypeError
    for an action or calls of another type.
    """
    if not isinstance(action, ACTIONS):
        raise TypeError(f"an action is one of {_names(ACTIONS)}, not {action!r}")
    if calls is not None and not isinstance(calls, CALLS):
        raise TypeError(f"calls are one of {_names(CALLS)}, not {calls!r}")
    for name, value in (("client_id", client_id), ("topic", topic)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is a text, not {value!r}")
    listed = () if api is None else (api,) if isinstance(api, str | int) else tuple(api)
    if api is not None and not listed:
        raise ValueError("the list of APIs is empty: leave it out for all APIs")
    apis = tuple(api_key_of(each) for each in listed)
    without_topics = next((key for key in apis if not names_topics(key)), None)
    if topic is not None and without_topics is not None:
        raise ValueError(f"{MESSAGES[without_topics].name} requests name no topic, so none can be for topic {topic!r}")
    return FaultPlan(action, apis, client_id, topic, All() if calls is None else calls)


def plan_from_json(value: Any) -> FaultPlan:
    """Make the plan of `FaultPlan.to_json`. Raises ValueError, TypeError or KeyError for any other value."""
    return fault_plan(
        _made(ACTIONS, value["action"]),
        api=value["api"] or None,
        client_id=value["client_id"],
        topic=value["topic"],
        calls=_made(CALLS, value["calls"]),
    )


def api_key_of(api: Api) -> ApiKey:
    """Return the key of an API by its name in Kafka's JSON or in ApiKeys, or by its number.

    Raises ValueError for an API that Kafka, or this broker's protocol, does not have.
    """
    if isinstance(api, str):
        by_name = {_squeezed(entry.name): key for key, entry in MESSAGES.items()}
        key = by_name.get(_squeezed(api))
        if key is None:
            near = nearest_hint(api, [entry.name for entry in MESSAGES.values()])
            raise ValueError(f"Kafka has no API {api!r}{near}")
        return key
    key = next((each for each in MESSAGES if each == api and not isinstance(api, bool)), None)
    if key is None:
        raise ValueError(f"there is no API with the key {api!r}: give its name, such as 'Produce', or its number")
    return key


def _squeezed(name: str) -> str:
    return name.replace("_", "").lower()


def _made(classes: tuple[type[Any], ...], value: Any) -> Any:
    """Make the instance of one of `classes` whose fields, and the name of whose class, JSON has.

    Raises ValueError for another class and for values that the class rejects, TypeError for unknown or missing fields,
    KeyError without the name of a class.
    """
    fields = dict(value)
    kind = fields.pop(_KIND)
    for each in classes:
        if each.__name__ == kind:
            return each(**fields)
    raise ValueError(f"{kind!r} is none of {_names(classes)}")


def _names(classes: tuple[type[Any], ...]) -> str:
    return ", ".join(each.__name__ for each in classes)
