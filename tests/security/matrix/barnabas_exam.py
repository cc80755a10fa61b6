"""The exam of our own clients."""

from __future__ import annotations

import time
from typing import Any

from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.consumer import Consumer
from barnabas.clients.producer import Producer
from barnabas.clients.settings.client_config import ClientConfig
from tests.security.matrix.login import IN_TRANSACTION, OAUTHBEARER, PLAIN_VALUES, SECONDS, VALUES, Login


def sit(login: Login, topic: str) -> list[str]:
    """See Exam."""
    settings = _settings(login)
    with Admin(login.bootstrap, config=ClientConfig(**settings)) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with Producer(login.bootstrap, transactional_id=topic, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in IN_TRANSACTION:
            producer.send(topic, value.encode())
        producer.commit_transaction()
    with Producer(login.bootstrap, **settings) as producer:
        for future in [producer.send(topic, value.encode()) for value in PLAIN_VALUES]:
            future.result(SECONDS)
    found: list[str] = []
    reader = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", **settings}
    with Consumer(login.bootstrap, group_id=topic, **reader) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + SECONDS
        while len(found) < len(VALUES) and time.monotonic() < deadline:
            found += [(record.value or b"").decode() for record in consumer.poll(500)]
        consumer.commit_sync()
    return found


def _settings(login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {"security_protocol": login.protocol}
    if login.has_tls:
        settings["ssl_truststore_location"] = login.trust_pem
    if login.mechanism == OAUTHBEARER:
        return settings | {"sasl_mechanism": OAUTHBEARER, "sasl_oauthbearer_token": lambda: login.password}
    if login.mechanism is not None:
        settings |= {"sasl_mechanism": login.sasl_mechanism, "sasl_token_auth": login.is_by_token}
        settings |= {"sasl_username": login.user, "sasl_password": login.password}
    return settings
