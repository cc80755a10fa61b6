"""Coordinators: brokers that keep the state of groups and of transactions, and store it in internal topics."""
