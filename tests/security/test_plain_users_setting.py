"""The users of PLAIN in `sasl.plain.users`: they log in, others do not, and nothing shows their passwords."""

from __future__ import annotations

from pathlib import Path

from barnabas.protocol.errors import ErrorCode
from tests.support.barnabas_process import BarnabasProcess
from tests.support.sasl_exchange import SaslRawClient
from tests.support.server_fixtures import SERVER_PROPERTIES
from tests.support.settings_client import BROKER, SettingsClient

USERS = {"alice": "alice-knows: this", "bob": "bob-knows=this;"}
SETTING = "listener.name.sasl.sasl.plain.users"


def test_users_log_in_and_their_passwords_are_shown_nowhere(tmp_path: Path) -> None:
    broker = BarnabasProcess(
        tmp_path,
        SERVER_PROPERTIES
        | {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "connection.failed.authentication.delay.ms": "1",
            SETTING: ",".join(f"{name}:{password}" for name, password in USERS.items()),
        },
    )
    broker.more_listeners = ("SASL://127.0.0.1:0",)
    broker.start()
    try:
        logins = dict.fromkeys(USERS.items(), ErrorCode.NONE)
        logins |= {("alice", USERS["bob"]): ErrorCode.SASL_AUTHENTICATION_FAILED}
        logins |= {("carol", "carol"): ErrorCode.SASL_AUTHENTICATION_FAILED}
        for (name, password), expected in logins.items():
            with SaslRawClient(broker, address=(broker.host, broker.ports["SASL"])) as client:
                assert client.log_in(name, password).error_code == expected
        shown = SettingsClient(broker).describe(BROKER, "0")
        assert (shown[SETTING].value, shown[SETTING].is_sensitive) == (None, True)
    finally:
        broker.stop()
    for password in USERS.values():
        assert password not in broker.log_text() + repr(shown)
