"""Delegation tokens in memory: values, and the cache that logins look them up in."""
