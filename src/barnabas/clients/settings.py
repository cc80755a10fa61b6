"""The notation of client settings: type, default, bound and documentation are written once, in a frozen dataclass.

Used by `ClientConfig` and the configs built on it, when their classes are made and when users make one; no state, no
lock. A field's name is Kafka's setting with underscores. The keyword arguments of `Producer` and `Consumer`
(`producer_settings`, `consumer_settings`) and docs/client-settings.md are made from these fields by `make docs`.
Kafka: ConfigDef.

    linger_ms: int = setting(0, "How long a batch waits for more records.", minimum=0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import Field, field, fields
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

_BOUND = "barnabas.setting"


class Bound(NamedTuple):
    """The limits of a setting's values beyond their type, and the setting's documentation."""

    documentation: str
    minimum: int | None
    choices: tuple[str, ...]


class Setting(NamedTuple):
    """One setting of a config class. `type` is the annotation as it is written."""

    name: str
    type: str
    default: Any
    bound: Bound

    @property
    def kafka_name(self) -> str:
        """The dotted name that Kafka's own clients use."""
        return self.name.replace("_", ".")


def setting(default: T, documentation: str, *, minimum: int | None = None, choices: Iterable[str] = ()) -> T:
    """Declare one setting, as the default of a dataclass field. `minimum` does not apply to None."""
    bound = Bound(documentation, minimum, tuple(choices))
    return field(default=default, metadata={_BOUND: bound})


def settings_of(config_class: type[Any]) -> Iterator[Setting]:
    """Yield the settings of a config class, those of its bases first."""
    for each in fields(config_class):
        yield Setting(each.name, str(each.type).replace("'", '"'), each.default, _bound(each))


def check_bounds(config: Any) -> None:
    """Check each value against its own declaration. Raises ValueError for the first value out of bounds."""
    for each in fields(config):
        value, bound = getattr(config, each.name), _bound(each)
        if bound.minimum is not None and value is not None and value < bound.minimum:
            raise ValueError(f"{each.name} must be at least {bound.minimum}, not {value!r}")
        if bound.choices and value not in bound.choices:
            raise ValueError(f"{each.name} must be {' or '.join(bound.choices)}, not {value!r}")


def _bound(each: Field[Any]) -> Bound:
    bound = each.metadata[_BOUND]
    assert isinstance(bound, Bound)
    return bound
