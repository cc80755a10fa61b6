"""A broker starts with 100,000 transactional ids to load: how long that takes and who suffers, beside Apache Kafka.

    python -m benchmarks.transaction_loading [--systems apache-kafka barnabas] [--ids 100000] [--rounds 3]

Each system gets the ids once, by InitProducerId. Then, one system after the other, it is stopped and started again,
beside a client that produces and alone, as `benchmarks.group_loading` does it: DescribeTransactions of one id of each
partition of `__transaction_state` tells when all are loaded. The same figures are printed.
"""

from __future__ import annotations

import time

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from benchmarks.group_loading import (
    BUSY,
    GIVE_UP_SECONDS,
    LOADING,
    PROBE_SECONDS,
    Load,
    measure,
    offsets_partition,
    print_loadings,
)
from benchmarks.group_members import NOT_YET, call, decoded, frame
from benchmarks.wire_requests import Connection
from tests.support.server_process import ServerProcess

PARTITIONS = 50
SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": str(PARTITIONS),
}
FIND, INIT, DESCRIBE = 2, 3, 0
"""Versions."""
TRANSACTION = 1
"""FindCoordinator's type of key."""
PIPELINED = 20


def transactional_id(number: int) -> str:
    """Of one producer."""
    return f"transactional-{number:06}"


def _init(name: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)


def make_ids(server: ServerProcess, ids: int) -> None:
    """Have every id get its producer id."""
    connection = Connection(server.host, server.port)
    connection.create_topic(BUSY)
    give_up = time.monotonic() + GIVE_UP_SECONDS
    # The first look-up has the broker make `__transaction_state`.
    call(connection, FindCoordinatorRequest(key=transactional_id(0), key_type=TRANSACTION), FIND)
    for name in _one_of_each_partition(ids).values():  # a coordinator begins partition by partition
        _init_until(give_up, connection, _init(name))
    for first in range(0, ids, PIPELINED):
        bodies = [_init(transactional_id(number)) for number in range(first, min(first + PIPELINED, ids))]
        connection.socket.sendall(b"".join(frame(body, INIT) for body in bodies))
        errors = [_error_of_init(decoded(connection.read_answer(), body, INIT)) for body in bodies]
        for body, error in zip(bodies, errors, strict=True):
            if error:  # Apache Kafka has no producer ids left, and fetches the next block
                _init_until(time.monotonic() + GIVE_UP_SECONDS, connection, body)
    connection.close()


def _init_until(give_up: float, connection: Connection, body: InitProducerIdRequest) -> None:
    """Ask again while the coordinator is not ready. Raises RuntimeError for another error, TimeoutError."""
    while error := _error_of_init(call(connection, body, INIT)):
        if error not in NOT_YET:
            raise RuntimeError(f"InitProducerId of {body.transactional_id}: error {error}")
        if time.monotonic() > give_up:
            raise TimeoutError(f"no coordinator of {body.transactional_id}")
        time.sleep(PROBE_SECONDS)


def _one_of_each_partition(ids: int) -> dict[int, str]:
    return {offsets_partition(name): name for name in map(transactional_id, range(ids))}


def _error_of_init(answer: object) -> int:
    assert isinstance(answer, InitProducerIdResponse)
    return answer.error_code


class TransactionProbes:
    """Asks for one id of each partition that has not been seen loaded."""

    def __init__(self, server: ServerProcess, ids: int) -> None:
        self._connection = Connection(server.host, server.port)
        self._left = _one_of_each_partition(ids)
        self.refused = 0

    def ask(self) -> bool:
        """Ask for one after the other, until one is not loaded; whether all are."""
        for partition, name in list(self._left.items()):
            answer = call(self._connection, DescribeTransactionsRequest([name]), DESCRIBE)
            assert isinstance(answer, DescribeTransactionsResponse)
            (state,) = answer.transaction_states
            if state.error_code in NOT_YET:
                self.refused += state.error_code == LOADING
                return False
            if state.error_code != ErrorCode.NONE:
                raise RuntimeError(f"{name}: error {state.error_code}")
            del self._left[partition]
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def main() -> None:
    """Print a table."""
    given = Load(
        name="ids",
        default_count=100_000,
        settings=SETTINGS,
        write=make_ids,
        probes=TransactionProbes,
    )
    options, seen = measure(__doc__, given)
    print(f"\n{options.count:,} transactional ids, {options.rounds} rounds\n")
    print_loadings(seen)


if __name__ == "__main__":
    main()
