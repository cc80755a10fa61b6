"""The exam of kafka-python. It knows no login by delegation token."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.security.matrix.login import IN_TRANSACTION, OAUTHBEARER, PLAIN_VALUES, SECONDS, VALUES, Login


class _GivenToken(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def sit(login: Login, topic: str) -> list[str]:
    """See Exam."""
    settings = _settings(login)
    admin = KafkaAdminClient(**settings)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    producer = KafkaProducer(**settings, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    for value in IN_TRANSACTION:
        producer.send(topic, value.encode())
    producer.commit_transaction()
    producer.close()
    producer = KafkaProducer(**settings)
    for future in [producer.send(topic, value.encode()) for value in PLAIN_VALUES]:
        future.get(SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        topic, **settings, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    found: list[str] = []
    deadline = time.monotonic() + SECONDS
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        for records in consumer.poll(500).values():
            found += [record.value.decode() for record in records]
    consumer.commit()
    consumer.close()
    return found


def _settings(login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if login.has_tls:
        settings["ssl_cafile"] = login.trust_pem
    if login.mechanism is None:
        return settings
    settings["sasl_mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return settings | {"sasl_oauth_token_provider": _GivenToken(login.password)}
    return settings | {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
