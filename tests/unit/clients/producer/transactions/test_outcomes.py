"""The consequence of each error in the answer to a transactional request."""

from __future__ import annotations

import pytest

from barnabas.clients.producer.transactions.outcomes import OUTCOMES, Outcome, decisive_error, outcome_of
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode as E

OF_THE_TRANSACTION = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)


@pytest.mark.parametrize("api", OF_THE_TRANSACTION)
def test_what_all_coordinators_say(api: ApiKey) -> None:
    assert outcome_of(api, E.NONE) is Outcome.DONE
    assert outcome_of(api, E.NOT_COORDINATOR) is Outcome.REDISCOVER
    assert outcome_of(api, E.COORDINATOR_NOT_AVAILABLE) is Outcome.REDISCOVER
    assert outcome_of(api, E.COORDINATOR_LOAD_IN_PROGRESS) is Outcome.RETRY
    assert outcome_of(api, E.PRODUCER_FENCED) is Outcome.FENCED
    assert outcome_of(api, E.INVALID_PRODUCER_EPOCH) is Outcome.FENCED
    assert outcome_of(api, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) is Outcome.FAIL


@pytest.mark.parametrize("api", OUTCOMES)
def test_an_error_that_nobody_expects_ends_the_producer(api: ApiKey) -> None:
    expected = Outcome.ABORT if api is ApiKey.ADD_PARTITIONS_TO_TXN else Outcome.FAIL
    assert outcome_of(api, E.UNKNOWN_SERVER_ERROR) is expected


def test_a_forgotten_producer_gets_a_new_epoch() -> None:
    for api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN):
        assert outcome_of(api, E.INVALID_PRODUCER_ID_MAPPING) is Outcome.ABORT_AND_RAISE_EPOCH
    assert outcome_of(ApiKey.INIT_PRODUCER_ID, E.INVALID_PRODUCER_ID_MAPPING) is Outcome.FAIL


def test_what_adds_to_a_transaction_waits_for_the_one_before() -> None:
    for api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT):
        assert outcome_of(api, E.CONCURRENT_TRANSACTIONS) is Outcome.WAIT_FOR_PREVIOUS


@pytest.mark.parametrize(
    ("errors", "decisive"),
    [
        ([], E.NONE),
        ([E.NONE, E.NONE], E.NONE),
        ([E.OPERATION_NOT_ATTEMPTED, E.TOPIC_AUTHORIZATION_FAILED], E.TOPIC_AUTHORIZATION_FAILED),
        ([E.TOPIC_AUTHORIZATION_FAILED, E.OPERATION_NOT_ATTEMPTED], E.TOPIC_AUTHORIZATION_FAILED),
        # A retry may help before it is decided that the transaction has failed.
        ([E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION], E.UNKNOWN_TOPIC_OR_PARTITION),
        ([E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_COORDINATOR], E.NOT_COORDINATOR),
        ([E.TOPIC_AUTHORIZATION_FAILED, E.PRODUCER_FENCED, E.NONE], E.PRODUCER_FENCED),
    ],
)
def test_of_several_errors_the_gravest_decides(errors: list[E], decisive: E) -> None:
    assert decisive_error(ApiKey.ADD_PARTITIONS_TO_TXN, errors) is decisive
