"""Consumer groups of KIP-848: the broker assigns, members heartbeat. `consumer_group_service` is the way in."""
