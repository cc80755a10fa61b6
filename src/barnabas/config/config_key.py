"""The row of a setting: its name, type, default, valid values, and whether it may change while the broker runs.

The tables in this package are made of rows; `KafkaConfig` and `LogConfig` parse with them. Bounds, versions and
addresses, which several tables check, are here too. A table writes a row as its
type with the name and the default, and the sentence that documents the setting behind a bar:

    INT("log.segment.bytes", 1_073_741_824, Range(14), CLUSTER_WIDE)
    | "The size at which a segment is closed and the next one begins.",

Immutable after import, so no thread owns them. The messages are Kafka's.
Kafka: org.apache.kafka.common.config.ConfigDef, MetadataVersion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum, IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.config.config_error import ConfigError

ConfigValue = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The types of settings, with their numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """The level at which a setting may be changed while the broker runs: Kafka's update modes."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


Validator = Callable[[ConfigValue], str | None]
"""A function that returns the reason why a parsed value is invalid, or None."""


class Range:
    """A validator of numbers within bounds, both included. or_equal: another number that is allowed."""

    __slots__ = ("least", "most", "or_equal")

    def __init__(self, least: float | None = None, most: float | None = None, or_equal: int | None = None) -> None:
        self.least = least
        self.most = most
        self.or_equal = or_equal

    def __call__(self, value: ConfigValue) -> str | None:
        """Return what is wrong with the value, or None."""
        if value is None:
            return "Value must be non-null"
        if not isinstance(value, int | float) or value == self.or_equal:
            return None
        inside = (self.least is None or value >= self.least) and (self.most is None or value <= self.most)
        if inside:
            return None
        if self.or_equal is not None:
            return f"Value must be between {self.least} and {self.most} or equal to {self.or_equal}"
        if self.least is not None and value < self.least:
            return f"Value must be at least {self.least}"
        return f"Value must be no more than {self.most}"

    def __str__(self) -> str:
        bounds = [str(bound) for bound in (self.least, "...", self.most) if bound is not None]
        extra = "" if self.or_equal is None else f" or {self.or_equal}"
        return f"[{','.join(bounds)}]{extra}"


class OneOf:
    """A validator of strings out of a fixed set. ConfigKey.parse applies it to every item of a list."""

    __slots__ = ("allowed", "ignore_case")

    def __init__(self, allowed: tuple[str, ...], *, ignore_case: bool = False) -> None:
        self.allowed = allowed
        self.ignore_case = ignore_case

    def __call__(self, value: ConfigValue) -> str | None:
        """Return what is wrong with the value, or None."""
        if self.ignore_case and isinstance(value, str):
            is_allowed = value.upper() in [name.upper() for name in self.allowed]
        else:
            is_allowed = value in self.allowed
        case = " (case insensitive)" if self.ignore_case else ""
        return None if is_allowed else f"String must be one of{case}: {', '.join(self.allowed)}"

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]"


class NotEmpty:
    """A validator of strings that may be missing, but not empty."""

    def __call__(self, value: ConfigValue) -> str | None:
        """Return what is wrong with the value, or None."""
        return "String must be non-empty" if value == "" else None

    def __str__(self) -> str:
        return "non-empty string"


class ThrottledReplicas:
    """A validator of `*`, or of a list of partition:broker pairs."""

    def __call__(self, value: ConfigValue) -> str | None:
        """Return what is wrong with the value, or None."""
        if not isinstance(value, tuple) or value in ((), ("*",)):
            return None
        if all(re.fullmatch(r"\d+:\d+", pair) for pair in value):
            return None
        return (
            "leader.replication.throttled.replicas and follower.replication.throttled.replicas must be the literal '*' "
            "or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class ConfigKey(NamedTuple):
    """One setting: a row of the tables in `barnabas.config.keys`.

    is_thread_count: the size of a pool, which a change at run time may at most halve or double. is_internal: Kafka's
    internal setting: it can be set, and is shown to clients only when it is set. kept: why the setting is only checked,
    kept and shown, where no part acts on it (`kept_settings`).
    """

    name: str
    type: ConfigType
    default: ConfigValue
    validator: Validator | None
    scope: Scope
    is_thread_count: bool
    is_internal: bool
    kept: str | None
    documentation: str

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is never shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str, name: str | None = None) -> ConfigValue:
        """Return the typed value of `text`. name: the setting's name with a prefix, for messages.

        Raises ConfigError: the text is no value of this type, or the validator rejects the value.
        """
        value = parse_value(name or self.name, self.type, text)
        if self.validator is not None:
            # Kafka checks a list out of a fixed set item by item, and its message names the item.
            items = value if isinstance(value, tuple) and isinstance(self.validator, OneOf) else (value,)
            for item in items:
                if (reason := self.validator(item)) is not None:
                    raise ConfigError.invalid(name or self.name, item, reason)
        return value

    def text(self, value: ConfigValue) -> str | None:
        """Return the value as a properties file would have it. Kafka: ConfigDef.convertToString."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return _java_double(value) if isinstance(value, float) else str(value)


class _Undocumented(tuple[Any, ...]):
    """A row before its sentence, the last field of a ConfigKey: `|` takes the sentence and makes the ConfigKey."""

    __slots__ = ()

    def __or__(self, documentation: str) -> ConfigKey:
        # The constructors of tuples: each row of the tables is made at every start.
        return tuple.__new__(ConfigKey, (*self, documentation))


def _row(
    type_: ConfigType,
    name: str,
    default: ConfigValue,
    validator: Validator | None = None,
    scope: Scope = Scope.READ_ONLY,
    *,
    is_thread_count: bool = False,
    is_internal: bool = False,
    kept: str | None = None,
) -> _Undocumented:
    """Return a row, which lacks only its sentence. The arguments are the fields of ConfigKey."""
    return _Undocumented((name, type_, default, validator, scope, is_thread_count, is_internal, kept))


# The rows of each type: the notation of the tables.
BOOLEAN: Final = partial(_row, ConfigType.BOOLEAN)
STRING: Final = partial(_row, ConfigType.STRING)
INT: Final = partial(_row, ConfigType.INT)
SHORT: Final = partial(_row, ConfigType.SHORT)
LONG: Final = partial(_row, ConfigType.LONG)
DOUBLE: Final = partial(_row, ConfigType.DOUBLE)
LIST: Final = partial(_row, ConfigType.LIST)
CLASS: Final = partial(_row, ConfigType.CLASS)
PASSWORD: Final = partial(_row, ConfigType.PASSWORD)
PER_BROKER: Final = Scope.PER_BROKER
CLUSTER_WIDE: Final = Scope.CLUSTER_WIDE


_INTEGER = re.compile(r"[+-]?[0-9]+")
# Not compiled here: it takes as long as making half of the rows, and few files have a DOUBLE.
_DOUBLE = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)"
# The number of value bits of Java's types: a number outside is "Not a number of type INT", as in Kafka.
_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


def parse_value(name: str, type_: ConfigType, text: str) -> ConfigValue:
    """Parse a value as Kafka's ConfigDef.parseType does. Raises ConfigError: the text is no value of this type."""
    trimmed = text.strip()
    if type_ in _BITS:
        number = int(trimmed) if _INTEGER.fullmatch(trimmed) else None
        bits = _BITS[type_]
        if number is None or not -(1 << bits) <= number < (1 << bits):
            raise ConfigError.invalid(name, text, f"Not a number of type {type_.name}")
        return number
    if type_ is ConfigType.BOOLEAN:
        if trimmed.lower() not in ("true", "false"):
            raise ConfigError.invalid(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if type_ is ConfigType.DOUBLE:
        if not re.fullmatch(_DOUBLE, trimmed):
            raise ConfigError.invalid(name, text, "Not a number of type DOUBLE")
        # Java's literals may end in a letter for the type, which Double.parseDouble accepts.
        return float(trimmed.rstrip("dDfF"))
    if type_ is ConfigType.LIST:
        # An empty text is an empty list, and not a list with one empty item.
        return tuple(item.strip() for item in trimmed.split(",")) if trimmed else ()
    return trimmed


def _java_double(value: float) -> str:
    """Return the text of Java's Double.toString: 0.5, 1.7976931348623157E308."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    precision = next(digits for digits in range(1, 18) if float(f"{value:.{digits}e}") == value)
    # Python and Java agree on the shortest digits that give the same number, and differ in the form around them.
    mantissa, exponent = f"{value:.{precision}e}".split("e")
    return f"{mantissa}E{int(exponent)}"


INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

AT_LEAST_0 = Range(0)
AT_LEAST_1 = Range(1)


class KafkaVersion:
    """A version of Kafka's metadata, in full (3.9-IV0) or as a release (3.9, 0.10.2.1). Kafka: MetadataVersion."""

    __slots__ = ("releases",)

    def __init__(self, releases: tuple[str, ...]) -> None:
        """Take the releases, each with its number of internal versions: 3.7:5."""
        self.releases = releases

    def __call__(self, value: ConfigValue) -> str | None:
        """Return what is wrong with the value, or None."""
        release, _, internal = str(value).partition("-IV")
        parts = 3 if release.startswith("0.") else 2
        known = dict(entry.split(":") for entry in self.releases)
        count = known.get(".".join(release.split(".")[:parts]))
        if count is not None and (not internal or (internal.isdecimal() and int(internal) < int(count))):
            return None
        return f"Version {value} is not a valid version. The valid versions are {', '.join(known)}"

    def is_at_least(self, value: str, other: str) -> bool:
        """Return whether a valid version is another one or later. Without -IV a release is its last one."""
        return self._position(value) >= self._position(other)

    def _position(self, value: str) -> list[int]:
        release, _, internal = value.partition("-IV")
        parts = 3 if release.startswith("0.") else 2
        name = ".".join(release.split(".")[:parts])
        counts = [entry.split(":") for entry in self.releases]
        place = next(number for number, (known, _count) in enumerate(counts) if known == name)
        # A release without internal versions (0.9.0) counts as one.
        return [place, int(internal) if internal else max(int(counts[place][1]) - 1, 0)]

    def __str__(self) -> str:
        return f"[{', '.join(entry.split(':')[0] for entry in self.releases)}]"


# fmt: off
METADATA_VERSIONS = KafkaVersion((
    "0.8.0:0", "0.8.1:0", "0.8.2:0", "0.9.0:0", "0.10.0:2", "0.10.1:3", "0.10.2:1", "0.11.0:3",
    "1.0:1", "1.1:1", "2.0:2", "2.1:3", "2.2:2", "2.3:2", "2.4:2", "2.5:1",
    "2.6:1", "2.7:3", "2.8:2", "3.0:2", "3.1:1", "3.2:1", "3.3:4", "3.4:1",
    "3.5:3", "3.6:3", "3.7:5", "3.8:1", "3.9:1", "4.0:2",
))
# fmt: on
"""The versions that inter.broker.protocol.version may name."""


_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.%\w]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>\d{1,5})")
_LAST_PORT: Final = 65535


class Address(NamedTuple):
    """An address to listen on or to connect to. host: empty for every interface. port: 0 for a free one."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The address as host:port, with brackets around an IPv6 address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_host_and_port(text: str) -> Address:
    """Parse host:port. Raises ValueError: the text has another form, or the port is beyond 65535."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > _LAST_PORT:
        raise ValueError(f"{text!r} is not of the form host:port")
    return Address(match["v6"] or match["host"] or "", int(match["port"]))


class HostAndPort:
    """A host and a port, if there is a value."""

    def __call__(self, value: ConfigValue) -> str | None:
        """Return what is wrong with the value, or None."""
        if value is None:
            return None
        try:
            parse_host_and_port(str(value))
        except ValueError:
            return "Value must be host:port, with brackets around an IPv6 address"
        return None

    def __str__(self) -> str:
        return "host:port"
