"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. The way in: `classic_group_service`."""
