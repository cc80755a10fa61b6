"""Every administrative API that the broker serves has a call of the admin client."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

import barnabas.clients.admin as package
from barnabas.clients.admin.admin import Admin
from barnabas.clients.aio.admin import Admin as AsyncAdmin
from barnabas.clients.metadata import cluster
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.message_index import MESSAGES
from barnabas.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.broker.versions import SERVED
from tests.support.scripted_cluster import ScriptedCluster

CALLS = {
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.METADATA: "describe_topics",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.INIT_PRODUCER_ID: "fence_producers",
    ApiKey.END_TXN: "end_transaction",
    ApiKey.WRITE_TXN_MARKERS: "abort_transaction",
    ApiKey.API_VERSIONS: "describe_features",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.UNREGISTER_BROKER: "unregister_broker",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "describe_user_scram_credentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "alter_user_scram_credentials",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "describe_groups",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.LEAVE_GROUP: "remove_group_members",
    ApiKey.OFFSET_FETCH: "list_group_offsets",
    ApiKey.OFFSET_COMMIT: "alter_group_offsets",
    ApiKey.OFFSET_DELETE: "delete_group_offsets",
}
"""The APIs whose requests a module of the package sends, and the call that sends them."""

BY_ANOTHER_API = {
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topics",
    ApiKey.ALTER_CONFIGS: "incremental_alter_configs",
}
"""Metadata says the same of cluster and topics. AlterConfigs would reset what it does not name; Java dropped it."""

WAITING_FOR_SECURITY = {
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}

NOT_ADMINISTRATIVE = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}


def _request_names() -> set[str]:
    modules = [
        importlib.import_module(each.name) for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    # The look-up of topics is the source's of Spark, too.
    modules.append(cluster)
    return {name for module in modules for name, _ in inspect.getmembers(module, inspect.isclass)}


def test_every_api_of_the_broker_has_a_call_or_a_reason() -> None:
    known = CALLS.keys() | BY_ANOTHER_API.keys() | WAITING_FOR_SECURITY | NOT_ADMINISTRATIVE
    assert not SERVED.keys() - known
    assert CALLS.keys() | BY_ANOTHER_API.keys() <= SERVED.keys()


def test_every_call_is_there_and_its_requests_are_sent() -> None:
    for call in {*CALLS.values(), *BY_ANOTHER_API.values()}:
        assert callable(getattr(Admin, call)), call
        assert inspect.iscoroutinefunction(getattr(AsyncAdmin, call)), call
    sent = _request_names()
    assert not [key.name for key in CALLS if f"{MESSAGES[key].name}Request" not in sent]


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION])
def test_a_broker_is_unregistered(error: ErrorCode) -> None:
    cluster = ScriptedCluster({}, extra=(UnregisterBrokerRequest,))
    asked: list[int] = []

    def answer(request: Any) -> UnregisterBrokerResponse:
        asked.append(request.body.broker_id)
        return UnregisterBrokerResponse(error_code=int(error), error_message=None)

    cluster.handlers[ApiKey.UNREGISTER_BROKER] = answer
    admin = Admin("", client=cluster.client())
    if error is ErrorCode.NONE:
        admin.unregister_broker(7)
    else:
        with pytest.raises(ApiError, match="Broker 7 stays registered") as raised:
            admin.unregister_broker(7)
        assert raised.value.code is error
    assert asked == [7]
