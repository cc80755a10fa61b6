"""A client's view of its cluster, from the bootstrap addresses to the requests that renew the view."""
