"""Socket buffers on a long path: MB/s of one connection by socket.receive.buffer.bytes and socket.send.buffer.bytes.

    python -m benchmarks.long_path --round-trip-ms 20      # needs root: see delayed_link

A connection moves at most one window a round trip: bandwidth <= buffer / round trip. One producer (five requests of
1 MiB in flight) and then one consumer (fetches of 4 MiB) on a host that is half a round trip away from the broker's.
Prints each buffer's MB/s, and its ratio to Kafka's default of 102,400 bytes in the same run. -1 leaves the buffer to
the operating system, which grows it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from barnabas.testing.broker_process import BrokerProcess
from benchmarks.delayed_link import DelayedLink, LinkUnavailable
from benchmarks.wire_requests import Connection, batch_of_size, fetch_frame, produce_frame

DEFAULT_BUFFER = 102_400
BUFFERS = (DEFAULT_BUFFER, 524_288, 2_097_152, -1)
TOPIC = "far"
BATCH_BYTES, FETCH_BYTES = 1 << 20, 4 << 20
IN_FLIGHT = 5


def produce(connection: Connection, seconds: float) -> float:
    """MB/s of produce with five requests in flight."""
    frame = produce_frame(TOPIC, 0, batch_of_size(BATCH_BYTES, 1000)[0], acks=1)
    began, answered = time.perf_counter(), 0
    for _ in range(IN_FLIGHT):
        connection.socket.sendall(frame)
    while time.perf_counter() - began < seconds:
        connection.read_answer()
        answered += 1
        connection.socket.sendall(frame)
    took = time.perf_counter() - began
    for _ in range(IN_FLIGHT):
        connection.read_answer()
    return answered * BATCH_BYTES / took / 1e6


def fetch(connection: Connection, seconds: float) -> float:
    """MB/s of fetches from the start of the log, one at a time."""
    frame = fetch_frame(TOPIC, 0, 0, FETCH_BYTES)
    began, received = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        received += len(connection.call(frame))
    return received / (time.perf_counter() - began) / 1e6


def run_client(address: str, seconds: float) -> None:
    """What runs on the near host: prints both figures as JSON."""
    host, _, port = address.rpartition(":")
    connection = Connection(host, int(port), FETCH_BYTES * 2)
    connection.create_topic(TOPIC)
    print(json.dumps({"produce": produce(connection, seconds), "fetch": fetch(connection, seconds)}))
    connection.close()


def measure(link: DelayedLink, buffer_bytes: int, seconds: float) -> dict[str, float]:
    """Both figures with a broker on the far host whose sockets have such buffers."""
    settings = {
        "socket_receive_buffer_bytes": buffer_bytes,
        "socket_send_buffer_bytes": buffer_bytes,
        "message_max_bytes": 10 << 20,
    }
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(
            f"{directory}/data",
            settings,
            listen=f"PLAINTEXT://{link.far_address}:0",
            python=(*link.on(link.far), sys.executable),
        )
        broker.start()
        try:
            command = [*link.on(link.near), sys.executable, "-m", "benchmarks.long_path", "--client"]
            command += [broker.bootstrap_servers, "--seconds", str(seconds)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
            figures: dict[str, float] = json.loads(done.stdout)
            return figures
        finally:
            broker.close()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round-trip-ms", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--client", metavar="HOST:PORT", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        run_client(arguments.client, arguments.seconds)
        return
    try:
        with DelayedLink(arguments.round_trip_ms / 2) as link:
            figures = {buffer: measure(link, buffer, arguments.seconds) for buffer in BUFFERS}
    except LinkUnavailable as error:
        sys.exit(str(error))
    reference = figures[DEFAULT_BUFFER]
    print(f"round trip {arguments.round_trip_ms:g} ms, one connection")
    print("| buffer, bytes | window / round trip, MB/s | produce, MB/s | ratio | fetch, MB/s | ratio |")
    print("|---|---|---|---|---|---|")
    for buffer, found in figures.items():
        window = f"{buffer / arguments.round_trip_ms / 1000:.0f}" if buffer > 0 else "grows"
        cells = (f"{found[what]:.1f} | {found[what] / reference[what]:.2f}" for what in ("produce", "fetch"))
        print(f"| {buffer:,} | {window} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
