"""One program a client library: a member of a group, in a process of its own (see group_member.py)."""
