"""The exam of confluent-kafka, which is librdkafka in Python. It knows no login by delegation token."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.security.matrix.login import IN_TRANSACTION, OAUTHBEARER, PLAIN_VALUES, SECONDS, VALUES, Login


def sit(login: Login, topic: str) -> list[str]:
    """See Exam."""
    settings = _settings(login)
    admin = AdminClient(settings)
    admin.poll(0)  # which is where librdkafka asks for the first token of OAUTHBEARER
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS)
    producer = Producer({**settings, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for value in IN_TRANSACTION:
        producer.produce(topic, value)
    producer.commit_transaction(SECONDS)
    producer = Producer(settings)
    for value in PLAIN_VALUES:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0
    return _read({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}, topic)


def _read(settings: dict[str, Any], topic: str) -> list[str]:
    consumer = Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
    found: list[str] = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + SECONDS
        while len(found) < len(VALUES) and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                found.append((message.value() or b"").decode())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def _settings(login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": login.bootstrap, "security.protocol": login.protocol}
    if login.has_tls:
        settings["ssl.ca.location"] = login.trust_pem
    if login.mechanism is None:
        return settings
    settings["sasl.mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return settings | {"oauth_cb": lambda _: (login.password, login.token_end_s)}
    return settings | {"sasl.username": login.user, "sasl.password": login.password}
