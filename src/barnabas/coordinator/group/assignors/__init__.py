"""The assignors of the consumer group protocol (KIP-848): who reads what, decided by the broker."""
