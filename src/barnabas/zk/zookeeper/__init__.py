"""The store of znodes in a ZooKeeper ensemble."""
