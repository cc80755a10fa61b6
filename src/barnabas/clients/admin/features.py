"""The versions of APIs that a broker supports, and the cluster's features (KIP-584).

Called by `Admin`. Kafka: FeatureMetadata, NodeApiVersions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas import __version__
from barnabas.clients.admin.admin_calls import AdminCalls, raise_error
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


class BrokerFeatures(NamedTuple):
    """The version ranges of APIs, by their keys, and of features, by their names. Both ends are included.

    The `finalized` ones are in force in the cluster since `finalized_epoch`, which is -1 if there are none.
    """

    api_versions: Mapping[int, tuple[int, int]]
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, tuple[int, int]]
    finalized_epoch: int


def describe_features(calls: AdminCalls, broker_id: int | None) -> BrokerFeatures:
    """Return the APIs and features of a broker, or of any broker. Raises ApiError."""
    # Brokers reject the request if a name or version has other characters than letters, digits, "-" and "." (KIP-511).
    request = ApiVersionsRequest("barnabas-admin", __version__)
    if broker_id is None:
        answer = calls.ask(request, ApiVersionsResponse)
    else:
        answer = calls.ask_broker(broker_id, request, ApiVersionsResponse)
    raise_error(answer.error_code, None, "Features are not known")
    return BrokerFeatures(
        {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys},
        {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features},
        {feature.name: (feature.min_version_level, feature.max_version_level) for feature in answer.finalized_features},
        answer.finalized_features_epoch,
    )
