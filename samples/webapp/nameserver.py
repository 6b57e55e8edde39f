"""
A name server outside of the cluster. Here it is a dict: put the client of your DNS provider in its place.

Both functions may be called again with the same arguments, which an operator does whenever it is not sure that the
last call got through.
"""

_records = {}


def create_dns(host, target):
    """Let `host` point to `target`, whether there is such a record already or not."""
    _records[host] = target


def drop_dns(host):
    """Take the record of `host` away; one that is not there is as good as one that was taken away."""
    _records.pop(host, None)
