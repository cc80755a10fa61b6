"""UpdateFeatures: v0-2 (KIP-584), as Kafka 3.9 in ZooKeeper mode answers it.

Not brief: an administrator's request, which writes to the store.

v1: upgrade type instead of "allow downgrade", validate only.
v2: one error for all features, as Kafka 4 words it.

Kafka: KafkaApis.handleUpdateFeatures, KafkaController.validateFeatureUpdate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.api.authorize import Authorizer, require_cluster_permission
from barnabas.api.request import Handler, Request
from barnabas.metadata.cluster_features import ClusterFeatures, FeatureChange
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codes import UpgradeType
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.security.acl.acl_codes import AclOperation

LAST_VERSION_WITH_RESULTS: Final = 1


class FeaturesApi:
    """Changes features. broker_id: this broker's, which must be the controller."""

    def __init__(
        self, broker_id: int, metadata: MetadataCache, features: ClusterFeatures, authorizer: Authorizer | None
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._features = features
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.UPDATE_FEATURES, self.update_features),)

    def update_features(self, request: Request[UpdateFeaturesRequest]) -> None:
        """Bring each feature to its level, or say why not; an empty request succeeds.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER; INVALID_UPDATE_VERSION from v2 on.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        if self._metadata.image.controller_id != self._broker_id:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        # A feature that is named twice has one result, for its last update.
        changes = {update.feature: _change_of(update, request.api_version) for update in request.body.feature_updates}
        # All or nothing from v2 on.
        is_atomic = request.api_version > LAST_VERSION_WITH_RESULTS
        reasons = self._features.update(
            list(changes.values()), is_atomic=is_atomic, validate_only=request.body.validate_only
        )
        if reasons and is_atomic:
            first, reason = next(iter(reasons.items()))
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {first.level} for feature {first.feature}. {reason}",
            )
        results = [
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=feature,
                error_code=ErrorCode.INVALID_REQUEST if change in reasons else ErrorCode.NONE,
                error_message=reasons.get(change),
            )
            for feature, change in changes.items()
        ]
        request.respond(UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results))


def _change_of(update: UpdateFeaturesRequest.FeatureUpdateKey, version: int) -> FeatureChange:
    upgrade_type: int = update.upgrade_type
    if version == 0:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return FeatureChange(update.feature, update.max_version_level, upgrade_type)
