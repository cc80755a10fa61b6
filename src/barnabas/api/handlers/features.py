"""UpdateFeatures: v0-2 (KIP-584), as Kafka 3.9 in ZooKeeper mode answers it: there are no features.

Not brief: an administrator's request.

v1: upgrade type instead of "allow downgrade", validate only.
v2: one error for all features, as Kafka 4 words it.

Kafka: KafkaApis.handleUpdateFeatures, KafkaController.validateFeatureUpdate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.api.authorize import AclOperation, Authorizer, require_cluster_permission
from barnabas.api.request import Handler, Request
from barnabas.metadata.metadata_cache import MetadataCache
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UPGRADE_TYPES: Final = (UPGRADE, SAFE_DOWNGRADE, 3)
LAST_VERSION_WITH_RESULTS: Final = 1


class FeaturesApi:
    """Refuses to change features, with the reason. broker_id: this broker's, which must be the controller."""

    def __init__(self, broker_id: int, metadata: MetadataCache, authorizer: Authorizer | None) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._authorizer = authorizer

    def handlers(self) -> Sequence[Handler]:
        """Return the lines of the table."""
        return (Handler(ApiKey.UPDATE_FEATURES, self.update_features),)

    def update_features(self, request: Request[UpdateFeaturesRequest]) -> None:
        """Refuse each update with its reason; an empty request succeeds.

        Raises ApiError: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER; INVALID_UPDATE_VERSION from v2 on.
        """
        require_cluster_permission(self._authorizer, request, AclOperation.ALTER)
        if self._metadata.image.controller_id != self._broker_id:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        # A feature that is named twice has one result, for its last update.
        reasons = {
            update.feature: _rejection_reason(update, request.api_version) for update in request.body.feature_updates
        }
        versions = {update.feature: update.max_version_level for update in request.body.feature_updates}
        if reasons and request.api_version > LAST_VERSION_WITH_RESULTS:
            # All or nothing from v2 on, so the first error stands for the request.
            first, reason = next(iter(reasons.items()))
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {versions[first]} for feature {first}. {reason}",
            )
        results = [
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=feature, error_code=ErrorCode.INVALID_REQUEST, error_message=reason
            )
            for feature, reason in reasons.items()
        ]
        request.respond(UpdateFeaturesResponse(error_code=ErrorCode.NONE, error_message=None, results=results))


def _rejection_reason(update: UpdateFeaturesRequest.FeatureUpdateKey, version: int) -> str:
    upgrade_type = update.upgrade_type
    if version == 0:
        upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if not update.feature:
        return "Feature name can not be empty."
    if upgrade_type not in UPGRADE_TYPES:
        return "Received unknown upgrade type."
    if update.max_version_level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if upgrade_type != UPGRADE:
        return "Can not delete non-existing finalized feature."
    return (
        f"Can not provide versionLevel: {update.max_version_level} less than 1"
        " without setting the SAFE downgradeType in the request."
    )
