"""A store of znodes: its interface, and the store embedded in a broker."""
