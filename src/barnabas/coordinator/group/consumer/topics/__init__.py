"""The topics of a consumer group: subscriptions, regular expressions, the hash that tells a change."""
