"""The member of a classic group: one member divides the partitions, and all of them join each generation."""
