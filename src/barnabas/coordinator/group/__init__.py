"""The group coordinator: who is in a group, who reads what, and how far they have got.

`coordinator.GroupCoordinator` is its facade for the request handlers; `broker/` tells it which partitions of
`__consumer_offsets` this broker leads. A `Group` is a lock, the committed offsets and a membership, which is a
`ClassicGroup` (JoinGroup, SyncGroup) or a `ConsumerGroup` (KIP-848).
"""
