"""Which config class declares which setting, and what follows the dynamic ones: read from the code itself."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from unittest.mock import MagicMock

from barnabas.broker.reconfigurable_parts import add_reconfigurable_parts
from barnabas.config.log_config import LogConfig
from barnabas.config.setting import Settings
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from tests.architecture.source_tree import ROOT, modules

CHECKED_BY_RULES = dict.fromkeys(
    (
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "metadata.store",
        "zookeeper.clientCnxnSocket",
        "zookeeper.ssl.crl.enable",
        "zookeeper.ssl.ocsp.enable",
    ),
    "the rules between settings",
)
"""Settings that no class declares, because they only say what others may be: name -> what acts on them."""

OF_THE_CONTROLLER = "unclean.leader.election.enable"
"""The topic setting that no log acts on: the controller reads it from the store when it elects a leader."""


@functools.cache
def config_classes() -> tuple[type[Settings], ...]:
    """Every class whose fields are declared with `setting`."""
    for module in modules():
        source = (ROOT / "src" / module.path).read_text(encoding="utf-8")
        if module.path.startswith("barnabas/") and "from barnabas.config.setting import" in source:
            importlib.import_module(module.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    # `slots` makes each class twice; the second is the one that its module has.
    ours = (each for each in _subclasses(Settings) if each.__module__.startswith("barnabas."))
    found = {f"{each.__module__}.{each.__qualname__}": each for each in ours}
    return tuple(getattr(importlib.import_module(each.__module__), each.__qualname__) for each in found.values())


def _subclasses(of: type[Settings]) -> Iterator[type[Settings]]:
    for each in of.__subclasses__():
        yield each
        yield from _subclasses(each)


@functools.cache
def acted_on() -> dict[str, str]:
    """Name of a broker's setting -> the classes that declare it, in words."""
    classes: dict[str, set[str]] = {}
    for each in config_classes():
        for name in each.names():
            classes.setdefault(name, set()).add(each.__name__)
    for names in LogConfig.names().values():
        for name in names:
            for synonym in TOPIC_CONFIG_KEYS[name].synonyms:
                classes.setdefault(synonym.name, set()).add(LogConfig.__name__)
    return {name: ", ".join(f"`{each}`" for each in sorted(found)) for name, found in classes.items()}


def followed() -> frozenset[str]:
    """The settings that some part of a broker takes over while it runs."""
    stages = MagicMock()
    add_reconfigurable_parts(stages, MagicMock(), MagicMock())
    calls = stages.foundations.dynamic.add_reconfigurable.call_args_list
    return frozenset().union(*(call.args[0].settings for call in calls))
