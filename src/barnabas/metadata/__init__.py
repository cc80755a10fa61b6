"""The cluster's metadata on a broker: the image readers use, and the administration that writes it to the store.

Imported by replica, controller, api and broker.
"""
