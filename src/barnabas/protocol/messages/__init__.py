"""Every message of the protocol, one module per API family; imported when a family is first needed.

`message_index` finds the classes of an API by its key.
"""
