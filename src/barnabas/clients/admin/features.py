"""Describes the APIs and features of brokers, changes the cluster's features, and unregisters brokers.

Part of `Admin`: any thread; no state.
Kafka: FeatureMetadata, FeatureUpdate, NodeApiVersions, KafkaAdminClient.unregisterBroker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas import __version__
from barnabas.clients.admin.admin_calls import AdminPart
from barnabas.clients.errors import error_in, raise_error
from barnabas.protocol.codes import UpgradeType
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.protocol.messages.inter_broker import UpdateFeaturesRequest, UpdateFeaturesResponse

# Version 0 has a flag in place of the upgrade type.
_UPDATE_VERSIONS = (1, 2)


class FeatureUpdate(NamedTuple):
    """The wanted level of a feature (KIP-584). 0 removes the feature, which is a downgrade."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class BrokerFeatures(NamedTuple):
    """The version ranges of APIs, by their keys, and of features, by their names. Both ends are included.

    The `finalized` ones are in force in the cluster since `finalized_epoch`, which is -1 if there are none.
    """

    api_versions: Mapping[int, tuple[int, int]]
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, tuple[int, int]]
    finalized_epoch: int


class AdminFeatures(AdminPart):
    """The methods of `Admin` about features, and about brokers that are gone."""

    def describe_features(self, broker_id: int | None = None) -> BrokerFeatures:
        """Return the APIs and features of a broker, or of any broker. Raises ApiError."""
        # Brokers reject the request if a name or version has other characters than letters, digits, "-" and "."
        # (KIP-511).
        request = ApiVersionsRequest("barnabas-admin", __version__)
        if broker_id is None:
            answer = self._calls.ask(request, ApiVersionsResponse)
        else:
            answer = self._calls.ask_broker(broker_id, request, ApiVersionsResponse)
        raise_error(answer.error_code, None, "Features are not known")
        return BrokerFeatures(
            {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys},
            {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features},
            {
                feature.name: (feature.min_version_level, feature.max_version_level)
                for feature in answer.finalized_features
            },
            answer.finalized_features_epoch,
        )

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Change the levels of features by name. With `validate_only`, only check whether they could be changed.

        Returns each feature's error, or None. Raises ApiError when no feature was changed at all.
        """
        request = UpdateFeaturesRequest(
            timeout_ms=self._calls.broker_timeout_ms,
            feature_updates=[
                UpdateFeaturesRequest.FeatureUpdateKey(
                    feature=name, max_version_level=update.max_version_level, upgrade_type=update.upgrade_type
                )
                for name, update in updates.items()
            ],
            validate_only=validate_only,
        )
        answer = self._calls.ask_controller(
            request, UpdateFeaturesResponse, lambda answer: [answer.error_code], _UPDATE_VERSIONS
        )
        raise_error(answer.error_code, answer.error_message, "No feature was changed")
        # Version 2 has no results: all features were changed, or the request has an error.
        errors = {each.feature: error_in(each.error_code, each.error_message, each.feature) for each in answer.results}
        return {name: errors.get(name) for name in updates}

    def unregister_broker(self, broker_id: int) -> None:
        """Have a cluster with KRaft forget a broker that is gone for good.

        Raises ApiError: UNSUPPORTED_VERSION by a cluster without KRaft, as that of Barnabas, where a registration ends
        with its broker.
        """
        answer = self._calls.ask(UnregisterBrokerRequest(broker_id), UnregisterBrokerResponse)
        raise_error(answer.error_code, answer.error_message, f"Broker {broker_id} stays registered")
