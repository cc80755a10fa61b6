"""The assignors that divide partitions among a classic group's members: range, round-robin, sticky, cooperative."""
