"""Coordinators: brokers that keep the state of groups (and, later, of transactions) and store it in internal topics."""
