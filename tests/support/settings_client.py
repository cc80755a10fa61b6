"""Changing and reading settings over the wire, for tests: one resource a call."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.message import Message
from tests.support.raw_client import SECONDS, ConnectionClosed, RawClient
from tests.support.server_process import ServerProcess
from tests.support.waiting import wait_until

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT, DYNAMIC_LOGGER = range(1, 7)
SET, DELETE, APPEND, SUBTRACT = range(4)
OK = (ErrorCode.NONE, None)
ALL_BROKERS = ""
M = TypeVar("M", bound=Message)
Outcome = tuple[int, str | None]


class Shown(NamedTuple):
    """What DescribeConfigs says of a setting; synonyms: name, value, source."""

    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: list[tuple[str, str | None, int]]


class SettingsClient:
    """A connection a call: changes of settings may close connections."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def change(
        self, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> Outcome:
        """IncrementalAlterConfigs of one resource; (error, message)."""
        settings = [IncrementalAlterConfigsRequest.AlterableConfig(*change) for change in changes]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(kind, name, settings)
        request = IncrementalAlterConfigsRequest([resource], validate_only)
        (result,) = self._call(request, 1, IncrementalAlterConfigsResponse).responses
        assert (result.resource_type, result.resource_name) == (kind, name)
        return result.error_code, result.error_message

    def set(self, broker: str, **settings: str | None) -> None:
        """Set settings of a broker (names with `_` for `.`), take away what is None, and wait until they are shown."""
        changes = {name.replace("_", "."): value for name, value in settings.items()}
        alterations = [(key, DELETE if value is None else SET, value) for key, value in changes.items()]
        assert self.change(BROKER, broker, *alterations) == OK
        source = DYNAMIC_DEFAULT if broker == ALL_BROKERS else DYNAMIC_BROKER

        def is_shown(key: str, value: str | None) -> bool:
            shown = self.describe(BROKER, broker, [key]).get(key)
            own = [] if shown is None else [text for of, text, where in shown.synonyms if (of, where) == (key, source)]
            return own == ([] if value is None else [value])

        eventually(lambda: all(is_shown(key, value) for key, value in changes.items()))

    def replace(self, kind: int, name: str, *settings: tuple[str, str | None], validate_only: bool = False) -> Outcome:
        """AlterConfigs of one resource; (error, message)."""
        configs = [AlterConfigsRequest.AlterableConfig(*setting) for setting in settings]
        resource = AlterConfigsRequest.AlterConfigsResource(kind, name, configs)
        request = AlterConfigsRequest([resource], validate_only)
        (result,) = self._call(request, 2, AlterConfigsResponse).responses
        assert (result.resource_type, result.resource_name) == (kind, name)
        return result.error_code, result.error_message

    def describe(self, kind: int, name: str, names: Sequence[str] | None = None) -> dict[str, Shown]:
        """DescribeConfigs of one resource."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, None if names is None else list(names))
        request = DescribeConfigsRequest([resource], include_synonyms=True)
        (result,) = self._call(request, 4, DescribeConfigsResponse).results
        assert result.error_code == ErrorCode.NONE, result
        return {
            each.name: Shown(
                each.value,
                each.config_source,
                each.read_only,
                each.is_sensitive,
                [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
            )
            for each in result.configs
        }

    def _call(self, request: Message, version: int, answer: type[M]) -> M:
        """Call until it is answered: a limit of connections, or a network thread that goes, may close this one."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                with RawClient(self._server) as client:
                    return client.call(request, version, answer)
            except (ConnectionClosed, ConnectionError):
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def description_error(self, kind: int, name: str) -> Outcome:
        """How DescribeConfigs refuses a resource."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(kind, name, None)
        (result,) = self._call(DescribeConfigsRequest([resource]), 4, DescribeConfigsResponse).results
        return result.error_code, result.error_message


eventually = partial(wait_until, seconds=SECONDS)
"""Settings are taken over a moment after the answer."""
