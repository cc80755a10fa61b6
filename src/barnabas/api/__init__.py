"""The request layer: what a parsed request is, which handler answers it, and how answers leave.

Called by the network layer (processors and request handlers); knows no sockets and owns no threads.
"""
