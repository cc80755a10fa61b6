"""How the leader of a classic group divides partitions among its members: range, round-robin, sticky, cooperative."""
