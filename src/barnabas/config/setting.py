"""The notation in which a part of the broker declares the settings it acts on: one field a setting.

    class FlushConfig(Settings):
        check_ms: int = setting("log.flush.scheduler.interval.ms")

The field takes its type's value, its default, bounds and documentation from the setting's row in the table
(`barnabas.config.keys`), the one place that describes it. From the fields follow how the class is read
(`Settings.from_kafka_config`), which settings it takes over while the broker runs (`Settings.dynamic_names`), and which
class the documentation names beside each setting. A name that is in no table fails at import.

A config class is a frozen dataclass, so any thread reads its instances. `dataclass` would compile six methods for each
class, which takes a tenth of a broker's start: the methods of all of them are in `Settings`.

Used by the config class of every layer.
Kafka: ConfigDef.define, and the vals of kafka.server.KafkaConfig.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import Any, Final, NamedTuple, Self, dataclass_transform

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import Scope
from barnabas.config.config_values import DEFAULTS, ConfigValues

_DECLARATION: Final = "barnabas.setting"


class Declaration(NamedTuple):
    """The declaration of a field: the settings it depends on, and the function that computes its value."""

    names: tuple[str, ...]
    read: Callable[[ConfigValues], Any]


def setting(name: str, convert: Callable[[Any], Any] | None = None) -> Any:
    """Declare a field that holds one setting. convert: makes the field's value of the setting's.

    Raises KeyError: no table has a setting of this name.
    """
    # Looked up here and not when the field is read, so that a wrong name fails at import.
    key = BROKER_CONFIG_KEYS[name]
    if convert is None:
        return _field(Declaration((key.name,), lambda config: config.value(name)))
    return _field(Declaration((key.name,), lambda config: convert(config.value(name))))


def computed(read: Callable[[ConfigValues], Any], *names: str) -> Any:
    """Declare a field that several settings decide, or whether a setting was given at all. names: those settings.

    Raises KeyError: no table has a setting of such a name.
    """
    return _field(Declaration(tuple(BROKER_CONFIG_KEYS[name].name for name in names), read))


def _field(declaration: Declaration) -> Any:
    # A factory, because a default that cannot be hashed (a mapping) is not allowed as such.
    return field(default_factory=lambda: declaration.read(DEFAULTS), metadata={_DECLARATION: declaration})


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Settings:
    """The base of config classes. Fields without a declaration are passed to the constructor, or have a default.

    Raises TypeError: a field is missing, given twice, or unknown. Raises FrozenInstanceError: one is set or deleted.
    """

    def __init_subclass__(cls) -> None:
        """Find the fields; `fields` and `replace` of `dataclasses` know them from here on."""
        super().__init_subclass__()
        dataclass(init=False, repr=False, eq=False, match_args=False)(cls)

    def __init__(self, *values: object, **named: object) -> None:
        own = fields(self)  # type: ignore[arg-type] # subclasses are dataclasses
        if len(values) > len(own):
            raise TypeError(f"{type(self).__name__} has {len(own)} fields, but {len(values)} values were given")
        for each, value in zip(own, values, strict=False):
            if each.name in named:
                raise TypeError(f"{type(self).__name__} got two values for {each.name!r}")
            named[each.name] = value
        for each in own:
            if each.name in named:
                value = named.pop(each.name)
            elif each.default is not MISSING:
                value = each.default
            elif each.default_factory is not MISSING:
                value = each.default_factory()
            else:
                raise TypeError(f"{type(self).__name__} lacks a value for {each.name!r}")
            object.__setattr__(self, each.name, value)
        if named:
            raise TypeError(f"{type(self).__name__} has no fields {', '.join(named)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({shown})"

    @classmethod
    def from_kafka_config(cls, config: ConfigValues, **given: object) -> Self:
        """Read the declared fields. given: the other fields, and those whose value does not come from `config`.

        Raises ConfigError: a value that its field cannot be made of. Raises TypeError: a field that is missing.
        """
        # The setting of a field that is passed in is not read: it may be unusable, like a broker id still to be
        # generated.
        values = {name: each.read(config) for name, each in cls.declarations().items() if name not in given}
        return cls(**values, **given)

    @classmethod
    def declarations(cls) -> dict[str, Declaration]:
        """Return the declaration of each field that has one."""
        return {
            each.name: each.metadata[_DECLARATION]
            for each in fields(cls)  # type: ignore[arg-type] # subclasses are dataclasses
            if _DECLARATION in each.metadata
        }

    @classmethod
    def names(cls) -> frozenset[str]:
        """Return the names of the settings that the fields depend on."""
        return frozenset(name for each in cls.declarations().values() for name in each.names)

    @classmethod
    def dynamic_names(cls) -> frozenset[str]:
        """Return those of `names` that may change while the broker runs."""
        return frozenset(name for name in cls.names() if BROKER_CONFIG_KEYS[name].scope is not Scope.READ_ONLY)
