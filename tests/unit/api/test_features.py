"""UpdateFeatures where this broker is not the controller, or the caller may not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.api.apis import Apis
from barnabas.api.authorize import Authorizer
from barnabas.api.handlers.features import FeaturesApi
from barnabas.api.registry import Registry
from barnabas.api.request import ConnectionContext
from barnabas.api.request_parser import RequestParser
from barnabas.metadata.cluster_features import ClusterFeatures
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.inter_broker import UpdateFeaturesRequest, UpdateMetadataRequest
from barnabas.purgatory.action_queue import ActionQueue
from barnabas.security.acl.acl_codes import AclOperation, Action, ResourceType
from barnabas.zk.kafka_zk_client import KafkaZkClient
from tests.support.inline_store import InlineStore
from tests.support.mock_clock import MockClock
from tests.support.recording_channel import RecordingChannel, connection


class Nobody(Authorizer):
    """Allows nothing."""

    def authorize(self, connection: ConnectionContext, actions: Sequence[Action], api_key: ApiKey) -> Sequence[bool]:
        assert [(each.operation, each.resource_type) for each in actions] == [
            (AclOperation.ALTER, ResourceType.CLUSTER)
        ]
        return [False]

    def authorize_by_resource_type(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, api_key: ApiKey
    ) -> bool:
        return False


def update_features(authorizer: Authorizer | None, controller_id: int) -> Any:
    metadata = MetadataCache(0)
    metadata.update_metadata(UpdateMetadataRequest(controller_id=controller_id))
    zk_client = KafkaZkClient(InlineStore(MockClock()).new_session(), MockClock())
    api = FeaturesApi(0, metadata, ClusterFeatures(zk_client), authorizer)
    parser = RequestParser(Registry(api.handlers()))
    body = UpdateFeaturesRequest(1_000, [UpdateFeaturesRequest.FeatureUpdateKey("foo", 1)])
    frame = encode_request_header(body.api_key, 1, 1, "me") + b"".join(map(bytes, body.encode(1)))
    channel = RecordingChannel()
    Apis(ActionQueue(), lambda: 1).handle(parser.parse(frame, connection(), channel=channel, received_ns=1))
    return channel.answer()


@pytest.mark.parametrize(
    ("authorizer", "controller_id", "code"),
    [
        (None, 0, ErrorCode.NONE),
        (None, 1, ErrorCode.NOT_CONTROLLER),
        (None, -1, ErrorCode.NOT_CONTROLLER),
        (Nobody(), 0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_update_features_and_where(authorizer: Authorizer | None, controller_id: int, code: ErrorCode) -> None:
    answer = update_features(authorizer, controller_id)
    assert answer.error_code == code
    assert bool(answer.results) == (code is ErrorCode.NONE)
