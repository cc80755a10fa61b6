"""Consumer groups of KIP-848: the broker assigns, members heartbeat. `consumer.service` is the way in."""
