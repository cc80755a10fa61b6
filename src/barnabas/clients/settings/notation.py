"""The notation of client settings: type, default, bound and documentation are written once, in a frozen dataclass.

Used by `ClientConfig` and the configs built on it, when their classes are made and when users make one, and by the
clients, which take a config or its settings. No state, no lock. A field's name is Kafka's setting with underscores. The
keyword arguments of `Producer` and `Consumer` (`producer_settings`, `consumer_settings`) and docs/client-settings.md
are made from these fields by `make docs`. Kafka: ConfigDef.

    linger_ms: int = setting(0, "How long a batch waits for more records.", minimum=0)
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, field, fields
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from barnabas.config.config_error import nearest_hint
from barnabas.config.secret import Secret

T = TypeVar("T")

_BOUND = "barnabas.setting"


Importance: TypeAlias = Literal["high", "medium", "low"]
"""How likely a user is to need a setting: Kafka's, for Kafka's settings."""


class Bound(NamedTuple):
    """The limits of a setting's values beyond their type, and the setting's documentation."""

    documentation: str
    minimum: int | None
    choices: tuple[str, ...]
    importance: Importance


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


def setting(
    default: T,
    documentation: str,
    *,
    minimum: int | None = None,
    choices: Iterable[str] = (),
    importance: Importance = "medium",
) -> T:
    """Declare one setting, as the default of a dataclass field. `minimum` does not apply to None."""
    bound = Bound(documentation, minimum, tuple(choices), importance)
    return field(default=default, metadata={_BOUND: bound})


def settings_of(config_class: type[Any]) -> Iterator[Setting]:
    """Yield the settings of a config class, those of its bases first."""
    for each in fields(config_class):
        yield Setting(each.name, str(each.type).replace("'", '"'), each.default, _bound(each))


def check_names(config_class: type[Any], given: Iterable[str]) -> None:
    """Check that each name is a setting of the class. Raises TypeError, with the nearest right name."""
    known = [each.name for each in fields(config_class)]
    for name in given:
        if name not in known:
            raise TypeError(f"{config_class.__name__} has no setting {name!r}{nearest_hint(name, known)}")


def chosen_config(config_class: type[T], config: T | None, settings: Mapping[str, Any]) -> T:
    """Return the config that a user has given, or one made of the user's settings. Raises TypeError for both."""
    if config is None:
        return config_class(**settings)
    if settings:
        raise TypeError(f"give a config or settings, not both: {', '.join(settings)}")
    return config


def check_values(config: Any) -> None:
    """Check each value against its own declaration.

    Raises TypeError for the first value of a wrong type, ValueError for the first one out of bounds.
    """
    hints = _type_hints(config.__class__)
    for each in fields(config):
        value, bound = getattr(config, each.name), _bound(each)
        if not _is_a(value, hints[each.name]):
            # A password of a wrong type is still a password.
            shown = f"a {type(value).__name__}" if Secret.__name__ in str(each.type) else repr(value)
            raise TypeError(f"{each.name} must be {each.type}, not {shown}")
        if bound.minimum is not None and value is not None and value < bound.minimum:
            raise ValueError(f"{each.name} must be at least {bound.minimum}, not {value!r}")
        if bound.choices and value is not None and value not in bound.choices:
            hint = nearest_hint(value, bound.choices) if isinstance(value, str) else ""
            raise ValueError(f"{each.name} must be {' or '.join(bound.choices)}, not {value!r}{hint}")


@cache
def _type_hints(config_class: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(config_class)


def _is_a(value: object, hint: Any) -> bool:
    """Return whether a value is of a type. Functions and protocols are left to those that know what they need."""
    if hint is int:
        # A bool is an int for Python; as a number of milliseconds it is a mistake.
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (bool, str, types.NoneType, Secret):
        return isinstance(value, hint)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(_is_a(value, each) for each in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return True


def _bound(each: Field[Any]) -> Bound:
    bound = each.metadata[_BOUND]
    assert isinstance(bound, Bound)
    return bound
