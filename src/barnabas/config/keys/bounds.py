"""Bounds that many settings share: the limits of Java's number types, and the versions Kafka has had.

Used by the tables beside it. Immutable. Kafka: ConfigDef.Range, MetadataVersion.
"""

from __future__ import annotations

from barnabas.config.config_key import ConfigValue, Range

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
