"""The follower's half of replication: threads that copy partitions from their leaders.

One thread for each leader and fetcher number (`fetcher_manager`, `fetcher_thread`); each talks to its leader
(`leader_end_point`) and writes to the logs of this broker (`follower_logs`). `partition_fetch_state` has the pure
rules.
"""
