"""The command line of a broker of the test kit, and the check of the settings that stand in it.

Made by BrokerProcess, on the caller's thread; no lock. Only `settings` may change, between two starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Setting = str | int | float | bool | Sequence[str]

_DECIDED_BY_PARAMETERS = {"listeners": "`listen`", "log.dir": "`data_dir`", "log.dirs": "`data_dir`"}


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerCommand:
    """What `barnabas serve` is started with. python: the words that start the interpreter.

    Raises ValueError for settings that the other fields decide (`listeners`, `log_dirs`), TypeError for None.
    """

    data_dir: str
    settings: dict[str, Setting]
    listen: str
    log_level: str
    python: Sequence[str]

    def __post_init__(self) -> None:
        """Reject settings that the command line would override silently. Raises ValueError, TypeError for None."""
        for name, value in self.settings.items():
            instead = _DECIDED_BY_PARAMETERS.get(name.replace("_", "."))
            if instead is not None:
                raise ValueError(f"{name} is decided by the parameter {instead}: give that instead")
            if value is None:
                raise TypeError(f"the setting {name} is None: leave it out for its default")

    def words(self, addresses: Sequence[str]) -> list[str]:
        """Return the words of the command line. addresses: those of an earlier start; none before the first one."""
        # The first start chose the ports. A restart has to keep them, because clients go on with the old addresses.
        listen = ",".join(addresses) or self.listen
        words = [*self.python, "-m", "barnabas", "serve", "--until-stdin-closes", "--log-level", self.log_level]
        words += ["--data-dir", self.data_dir, "--listen", listen]
        for name, value in self.settings.items():
            words += ["--override", f"{_kafka_name(name)}={_text(value)}"]
        return words


def _kafka_name(name: str) -> str:
    """Return Kafka's name of a setting. A name with a dot is Kafka's already: its underscores are a listener's."""
    return name if "." in name else name.replace("_", ".")


def _text(value: Setting) -> str:
    """Return a setting's value in the form of a properties file."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ",".join(value)
