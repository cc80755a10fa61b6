"""InitProducerId without a transactional id: ids that nobody else has."""

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.versions import each_version
from tests.support.raw_client import RawClient
from tests.support.server_fixtures import Server


def _take(client: RawClient, version: int = 4) -> int:
    """A new producer id; Kafka may say that it is still getting its first block of them."""
    while True:
        answer = client.call(InitProducerIdRequest(None, 60_000), version, InitProducerIdResponse)
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    return answer.producer_id


@each_version(ApiKey.INIT_PRODUCER_ID)
def test_every_version(client: RawClient, version: int) -> None:
    assert _take(client, version) >= 0


def test_ids_are_unique(client: RawClient) -> None:
    """More of them than a block of 1,000, so that a new block is taken."""
    ids = [_take(client) for _ in range(1500)]
    assert len(set(ids)) == len(ids)


def test_ids_are_unique_across_restarts(own_server: Server) -> None:
    def take() -> int:
        with RawClient(own_server) as client:
            return _take(client)

    own_server.start()
    ids = [take() for _ in range(3)]
    own_server.stop()
    own_server.start()
    ids.append(take())
    assert len(set(ids)) == len(ids)
