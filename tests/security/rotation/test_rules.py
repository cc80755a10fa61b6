"""The rules alone, on ours and on Apache Kafka 3.9: they are Kafka's, because Apache Kafka keeps them too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.conftest import Certificates
from tests.security.rotation import brokers
from tests.security.rotation.place import Place
from tests.security.rotation.rules import RULES, Rule
from tests.support.apache_kafka import need_apache_kafka

pytestmark = pytest.mark.timeout(600)

SESSION_MS = 5_000


APACHE_KAFKA = pytest.param("apache-kafka", marks=[pytest.mark.java, pytest.mark.slow])


@pytest.fixture(scope="module", params=["queue", APACHE_KAFKA])
def place(
    request: pytest.FixtureRequest, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "apache-kafka":
        need_apache_kafka()
        running = brokers.apache_kafka(certificates, directory, SESSION_MS)
    else:
        running = brokers.one_broker(certificates, directory, SESSION_MS, request.param)
    with running as place:
        yield place


@pytest.mark.parametrize("rule", RULES)
def test_a_rule(place: Place, rule: Rule) -> None:
    rule(place)
