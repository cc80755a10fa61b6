"""A fault plan: what happens to which requests, as a test writes it and as a line of JSON carries it.

Made by the test kit, which rejects a wrong plan at once, and made again by the broker from JSON (`control_messages`)
with the same checks. Immutable and pure. For example, "every tenth produce to `orders` fails":

    fault_plan(Error("NOT_LEADER_OR_FOLLOWER"), api="Produce", topic="orders", calls=Every(10))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.config.config_error import nearest_hint
from barnabas.faults.actions import ACTIONS, Action, Error
from barnabas.faults.calls import CALLS, All, Calls
from barnabas.faults.named_topics import names_topics
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.message_index import MESSAGES

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
