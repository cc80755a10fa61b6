"""The cluster's metadata on a broker: the image that readers use, and the administration that writes to the store.

Imported by replica, controller, api and broker.
"""
