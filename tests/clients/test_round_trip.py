"""Each client creates a topic, produces 10,000 records with keys and headers in each codec, and reads them back.

Reading is by assigned partitions and explicit offsets. What lies on the disk is checked as well: a client that
silently drops compression would otherwise pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.aiokafka_driver import AiokafkaDriver
from tests.clients.client_driver import ClientDriver, each_case, round_trip
from tests.clients.confluent_kafka_driver import ConfluentKafkaDriver
from tests.clients.java_console_driver import JavaConsoleDriver
from tests.clients.kafka_python_driver import KafkaPythonDriver
from tests.clients.kcat_driver import KcatDriver
from tests.support.apache_kafka import need_apache_kafka
from tests.support.requirements import need_program
from tests.support.server_fixtures import Server

PYTHON_DRIVERS = (ConfluentKafkaDriver, KafkaPythonDriver, AiokafkaDriver)


@each_case
@pytest.mark.parametrize("driver_class", PYTHON_DRIVERS, ids=lambda driver: driver.name)
def test_python_client(server: Server, driver_class: type[ClientDriver], codec: str, topic: str) -> None:
    round_trip(server, driver_class(), codec, topic)


@each_case
def test_kcat(server: Server, codec: str, topic: str) -> None:
    round_trip(server, KcatDriver(need_program("kcat")), codec, topic)


@pytest.mark.java
@pytest.mark.slow
@each_case
def test_java_console(server: Server, codec: str, topic: str, tmp_path: Path) -> None:
    need_apache_kafka()
    round_trip(server, JavaConsoleDriver(tmp_path), codec, topic)
