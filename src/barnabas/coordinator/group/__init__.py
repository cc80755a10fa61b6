"""The group coordinator: the members of groups, their assignments, and their committed offsets.

`GroupCoordinator` holds the services, of which `broker.stages.api_table` hands each request handler the one that it
calls. `broker.stages.group_coordinator_builder` builds it when it is first needed. A `Group` is a lock, the committed
offsets and a membership, which is a `ClassicGroup` (JoinGroup, SyncGroup) or a `ConsumerGroup` (KIP-848).

The rooms, from the bottom: `offsets_topic` encodes records; `classic`, `consumer` (with `assignors`) and `offsets` are
the services; `group_loading` and `restore` read the groups back. In `classic` and `consumer` a request takes three
steps: pure modules decide under the group's lock, `classic_group_changes` and `consumer_group_changes` write the
records under it, and finish the work without it.
"""
