"""The exam of kcat, which is librdkafka on the command line: that of Debian 12 is from before 2.6.1, whose SCRAM sends
the client's nonce twice. kcat creates topics by asking for their metadata. It has no login by a bearer token that it is
given, nor by delegation token.
"""

from __future__ import annotations

import subprocess
import time

from tests.security.matrix.login import IN_TRANSACTION, PLAIN_VALUES, SECONDS, VALUES, Login
from tests.support.requirements import need_program


def sit(login: Login, topic: str) -> list[str]:
    """See Exam."""
    _create_topic(login, topic)
    # To one partition, whose order is that of the reading.
    _run(login, "-P", "-t", topic, "-p", "0", "-X", f"transactional.id={topic}", lines=IN_TRANSACTION)
    _run(login, "-P", "-t", topic, "-p", "0", lines=PLAIN_VALUES)
    reading = ["-X", "auto.offset.reset=earliest", "-X", "isolation.level=read_committed", "-c", str(len(VALUES))]
    return _run(login, *reading, "-q", "-G", topic, topic).splitlines()


def _create_topic(login: Login, topic: str) -> None:
    deadline = time.monotonic() + SECONDS
    while "leader 0" not in (listing := _run(login, "-L", "-t", topic)):
        assert time.monotonic() < deadline, listing


def _run(login: Login, *arguments: str, lines: list[str] | None = None) -> str:
    settings = {"security.protocol": login.protocol}
    if login.has_tls:
        settings["ssl.ca.location"] = login.trust_pem
    if login.mechanism is not None:
        settings |= {"sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": login.password}
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = [need_program("kcat"), "-b", login.bootstrap, *options, *arguments]
    text = None if lines is None else "".join(f"{line}\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"kcat {arguments} ended with {done.returncode}: {done.stderr}"
    return done.stdout
