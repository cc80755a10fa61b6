"""The controller: one broker's thread that decides who leads what, and tells the brokers.

Imported by api and broker. State machines and elections are pure; `controller` holds the thread.
"""
