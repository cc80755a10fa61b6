"""Changes of in-sync replicas, from a proposal to its record."""
