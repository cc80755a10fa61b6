"""Passwords that the store keeps: Kafka's encoder reads what ours has written, and ours reads what Kafka's has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from barnabas.config.secret import Secret
from barnabas.security.password_encoder import CBC, GCM, PasswordEncoder, PasswordEncoderConfig
from tests.support.apache_kafka import POM, need_apache_kafka
from tests.support.maven import fetch_jars, find_java

pytestmark = [pytest.mark.java, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("KafkaPasswordEncoder.java")
SECRET = "the secret of the encoder"
PASSWORD = "pässword: 1,2 \U0001f511"


def kafka(action: str, cipher: str, key_length: int, text: str) -> str:
    """Run Kafka's encoder."""
    command = [find_java(), "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", f"{fetch_jars(POM)}/*"]
    arguments = [str(PROGRAM), action, SECRET, cipher, str(key_length), text]
    # The JVM decodes its arguments by the locale.
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*command, *arguments], capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().removesuffix("\n")


@pytest.mark.parametrize(("cipher", "key_length"), [(CBC, 128), (CBC, 256), (GCM, 128)])
def test_each_reads_what_the_other_has_written(cipher: str, key_length: int) -> None:
    need_apache_kafka()
    ours = PasswordEncoder(Secret(SECRET), PasswordEncoderConfig(cipher=cipher, key_length_bits=key_length))
    assert kafka("decode", cipher, key_length, ours.encode(PASSWORD)) == PASSWORD
    assert ours.decode(kafka("encode", cipher, key_length, PASSWORD)) == PASSWORD
