"""Parametrizes a test over every version of an API."""

from __future__ import annotations

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.message_index import request_class
from tests.support.server_fixtures import AGAINST_KAFKA

APACHE_KAFKA_39_CEILINGS = {
    ApiKey.PRODUCE: 11,
    ApiKey.FETCH: 17,
    ApiKey.LIST_OFFSETS: 9,
    ApiKey.METADATA: 12,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.DESCRIBE_CLUSTER: 1,
}
"""Where ours goes further: used only when the tests run against Apache Kafka."""


def each_version(api_key: ApiKey, lowest: int = 0, highest: int | None = None) -> pytest.MarkDecorator:
    """The parameter `version`: all that our messages have, or the part of them from `lowest` to `highest`."""
    ceiling = request_class(api_key).max_version if highest is None else highest
    if AGAINST_KAFKA:
        ceiling = min(ceiling, APACHE_KAFKA_39_CEILINGS.get(api_key, ceiling))
    return pytest.mark.parametrize("version", range(lowest, ceiling + 1), ids="v{}".format)
