"""The loading of groups from `__consumer_offsets`, when the broker becomes the leader of a partition."""
