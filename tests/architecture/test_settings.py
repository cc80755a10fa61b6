"""What the docs say of settings is so: each is acted on or says why not, and a dynamic one reaches its part."""

from __future__ import annotations

import ast
import types
import typing

import pytest

from barnabas.config.broker_config_keys import BROKER_CONFIG_KEYS
from barnabas.config.config_key import Scope
from barnabas.config.config_values import DEFAULTS
from barnabas.config.kept_settings import KEPT_KEYS, KEPT_TOPIC_KEYS
from barnabas.config.log_config import LogConfig
from barnabas.config.protection import PROMISES
from barnabas.config.setting import Settings
from barnabas.config.topic_config_keys import TOPIC_CONFIG_KEYS
from tests.architecture.declared_settings import CHECKED_BY_RULES, OF_THE_CONTROLLER, acted_on, config_classes, followed
from tests.architecture.source_tree import modules

TYPED_READERS = {"integer", "optional_integer", "floating", "boolean", "string", "optional_string", "list"}
READ_BY_NAME = {"barnabas/broker/reconfigurable_parts.py": "it refuses what nothing acts on"}
"""Outside `barnabas.config`: modules that read a setting by its name, and why."""


def test_every_setting_is_declared_or_says_why_not() -> None:
    declared = acted_on().keys() | CHECKED_BY_RULES.keys()
    assert not declared & KEPT_KEYS.keys(), "a class declares these now: take `kept` off their rows"
    assert not PROMISES.keys() & KEPT_KEYS.keys(), "these stop the start: they cannot be kept"
    assert not BROKER_CONFIG_KEYS.keys() - declared - KEPT_KEYS.keys() - PROMISES.keys(), "nothing declares these"


def test_every_topic_setting_is_declared_or_says_why_not() -> None:
    declared = {name for names in LogConfig.names().values() for name in names}
    assert not declared & KEPT_TOPIC_KEYS.keys()
    assert declared | KEPT_TOPIC_KEYS.keys() | {OF_THE_CONTROLLER} == TOPIC_CONFIG_KEYS.keys()


def test_every_dynamic_setting_is_taken_over_by_a_part() -> None:
    dynamic = {name for name, key in BROKER_CONFIG_KEYS.items() if key.scope is not Scope.READ_ONLY}
    forgotten = dynamic - followed() - KEPT_KEYS.keys() - PROMISES.keys()
    assert not forgotten, "no part follows these while the broker runs: see reconfigurable_parts"


def test_every_declared_field_is_read() -> None:
    read = {
        node.attr
        for module in modules()
        for node in ast.walk(module.tree)
        if module.path.startswith("barnabas/") and isinstance(node, ast.Attribute)
    }
    fields = {config.__name__: set(config.declarations()) for config in config_classes()}
    fields["LogConfig"] = set(LogConfig.names())
    unread = {name: sorted(declared - read) for name, declared in fields.items()}
    assert not {name: forgotten for name, forgotten in unread.items() if forgotten}


@pytest.mark.parametrize("config", config_classes(), ids=lambda config: config.__name__)
def test_declared_fields_have_the_types_of_their_values(config: type[Settings]) -> None:
    hints = typing.get_type_hints(config)
    for name, declaration in config.declarations().items():
        value, hint = declaration.read(DEFAULTS), hints[name]
        kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        assert any(type(value) is kind or _is_kind_of(value, kind) for kind in kinds), f"{name}: {value!r} is no {hint}"


def _is_kind_of(value: object, kind: type) -> bool:
    """Whether a collection, or None, is one; bool is no int here."""
    origin = typing.get_origin(kind)
    return isinstance(value, origin) if origin is not None else not isinstance(value, bool) and isinstance(value, kind)


def test_settings_reach_the_layers_as_declared_fields() -> None:
    """By name they are read in `barnabas.config`, and in functions that compute a declared field."""
    by_name = {
        module.path
        for module in modules()
        for node in ast.walk(module.tree)
        if module.path.startswith("barnabas/")
        and not module.path.startswith(("barnabas/config/", "barnabas/clients/"))
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in TYPED_READERS
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and "." in str(node.args[0].value)
    }
    computing = {
        module.path
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        and node.module == "barnabas.config.setting"
        and "computed" in {alias.name for alias in node.names}
    }
    assert by_name - computing == READ_BY_NAME.keys()
