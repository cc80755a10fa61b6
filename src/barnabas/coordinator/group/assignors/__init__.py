"""The assignors of the consumer group protocol (KIP-848): the broker divides the partitions."""
