"""The exam of aiokafka. It knows no login by delegation token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.security.matrix.login import IN_TRANSACTION, OAUTHBEARER, PLAIN_VALUES, SECONDS, VALUES, Login
from tests.support.certificates import strict_context


class _GivenToken(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def sit(login: Login, topic: str) -> list[str]:
    """See Exam."""
    return asyncio.run(asyncio.wait_for(_sit(_settings(login), topic), 2 * SECONDS))


async def _sit(settings: dict[str, Any], topic: str) -> list[str]:
    admin = AIOKafkaAdminClient(**settings)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    async with AIOKafkaProducer(**settings, transactional_id=topic) as producer, producer.transaction():
        for value in IN_TRANSACTION:
            await producer.send_and_wait(topic, value.encode())
    async with AIOKafkaProducer(**settings) as producer:
        for value in PLAIN_VALUES:
            await producer.send_and_wait(topic, value.encode())
    reader = {"group_id": topic, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with AIOKafkaConsumer(topic, **settings, **reader) as consumer:
        found = [(await consumer.getone()).value.decode() for _ in VALUES]
        await consumer.commit()
    return found


def _settings(login: Login) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": login.bootstrap, "security_protocol": login.protocol}
    if login.has_tls:
        settings["ssl_context"] = strict_context(Path(login.trust_pem).read_text())
    if login.mechanism is None:
        return settings
    settings["sasl_mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return settings | {"sasl_oauth_token_provider": _GivenToken(login.password)}
    return settings | {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
