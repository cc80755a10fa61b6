"""How a coordinator loads its groups from `__consumer_offsets` when it becomes the leader of a partition."""
