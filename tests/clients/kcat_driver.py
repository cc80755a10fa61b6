"""kcat (librdkafka on the command line). It creates topics by asking for their metadata, as its users do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence

from tests.clients.client_driver import Headers, ReadRecord, SentRecord

SECONDS = 60
KEY_END, RECORD_END = "\x1f", "\n"


class KcatDriver:
    """Runs kcat once per partition. Input is split at delimiters, so keys and values must not hold those."""

    name = "kcat"
    partitions = 2
    carries_bytes = False
    headers_per_record = False

    def __init__(self, kcat: str) -> None:
        self._kcat = kcat

    def create_topic(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        listing = ""
        for _ in range(50):
            listing = self._run("-L", "-b", bootstrap_servers, "-t", topic).decode()
            if f'topic "{topic}" with {partitions} partitions' in listing and "Broker: " not in listing:
                return
        raise AssertionError(f"no leader for {topic}: {listing}")

    def produce(self, bootstrap_servers: str, topic: str, codec: str, records: Sequence[SentRecord]) -> None:
        for partition in sorted({record.partition for record in records}):
            chosen = [record for record in records if record.partition == partition]
            headers = [f"-H{name}={value.decode()}" for name, value in chosen[0].headers]
            lines = b"".join(
                (record.key or b"") + KEY_END.encode() + record.value + RECORD_END.encode() for record in chosen
            )
            place = ["-b", bootstrap_servers, "-t", topic, "-p", str(partition)]
            self._run("-P", *place, "-z", codec, f"-K{KEY_END}", *headers, standard_input=lines)

    def read(self, bootstrap_servers: str, topic: str, offsets: Mapping[int, int], count: int) -> Iterator[ReadRecord]:
        """`count` is not needed: `-e` ends at the end of the partition."""
        for partition, offset in offsets.items():
            place = ["-b", bootstrap_servers, "-t", topic, "-p", str(partition), "-o", str(offset)]
            yield from _parse(self._run("-C", *place, "-e", "-q", "-f", r"%p %o %K %S %h\n%k%s"))

    def _run(self, *arguments: str, standard_input: bytes | None = None) -> bytes:
        command = [self._kcat, *arguments]
        done = subprocess.run(command, input=standard_input, capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr.decode()}"
        return done.stdout


def _parse(output: bytes) -> Iterator[ReadRecord]:
    position = 0
    while position < len(output):
        line_end = output.index(b"\n", position)
        partition, offset, key_size, value_size, headers = output[position:line_end].decode().split(" ", 4)
        key_end = line_end + 1 + int(key_size)
        value_end = key_end + int(value_size)
        key, value = output[line_end + 1 : key_end], output[key_end:value_end]
        yield ReadRecord(int(partition), int(offset), key, value, _parse_headers(headers))
        position = value_end


def _parse_headers(text: str) -> Headers:
    pairs = (pair.split("=", 1) for pair in text.split(",") if pair)
    return tuple((name, value.encode()) for name, value in pairs)
