"""Taking the names of servers out of what a cluster or a system says about a failure.

Messages are kept with the runs that failed. The address that a message names itself is recognised there by its
``scheme://`` and taken out; a server's own words name nodes without one.
"""

from __future__ import annotations

import re

from keqa.retrievers.elasticsearch.address import Address
from keqa.storage.redaction import HOST, REPLACED, without_keys

# Numbers of lines and shards follow a colon too: a host without a dot has a port of four digits or more behind it.
_NODE = re.compile(rf"{HOST.pattern} | (?<![\w.-])[a-z][a-z0-9_-]*:\d{{4,5}}(?!\w)", HOST.flags)
# Elasticsearch writes [name][address], or {name}{id}…{address}; by default the name of a node is that of its host.
_NAMES = re.compile(rf"(?:\[[^\[\]]*\]|(?:\{{[^{{}}]*\}}){{1,20}})(?=[\[{{]{REPLACED})")


def without_hosts(text: str, address: Address) -> str:
    """Return a text with ``<address>`` in the places of hosts: those of an address, and any with a port or by number.

    Keys that it repeats are taken out as well.

    Args:
        text: What a server, or the system, says.
        address: Of the index that it is about.
    """
    text = _NODE.sub(REPLACED, without_keys(text))
    for host in {host.strip("[]") for host, _ in address.nodes}:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", REPLACED, text, flags=re.IGNORECASE)
    return _NAMES.sub("", text)
