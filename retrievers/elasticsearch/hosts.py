"""Taking the names of servers out of what a cluster or a system says about a failure.

Messages are kept with the runs that failed. The address that a message names itself is recognised there by its
``scheme://`` and taken out; a server's own words name nodes without one.
"""

from __future__ import annotations

import re

from keqa.retrievers.elasticsearch.address import Address

_REPLACED = "<address>"
# Numbers of lines and shards follow a colon too: a host has a dot in it, or a port of four digits or more behind it.
_NODE = re.compile(
    r"""
    \[[0-9a-f:.]*:[0-9a-f:.]*(?:%\w+)?\]:\d{1,5}        # [::1]:9300
    | (?<![\w.-])(?:[\w.-]+/)?\d{1,3}(?:\.\d{1,3}){3}(?![\w.])(?::\d{1,5})?        # host/10.0.0.5:9300
    | (?<![\w.-])[a-z0-9_-]+(?:\.[a-z0-9_-]+)+:\d{2,5}(?!\w)
    | (?<![\w.-])[a-z][a-z0-9_-]*:\d{4,5}(?!\w)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Elasticsearch writes [name][address], or {name}{id}…{address}; by default the name of a node is that of its host.
_NAMES = re.compile(rf"(?:\[[^\[\]]*\]|(?:\{{[^{{}}]*\}})+)(?=[\[{{]{_REPLACED})")


def without_hosts(text: str, address: Address) -> str:
    """Return a text with ``<address>`` in the places of hosts: those of an address, and any with a port or by number.

    Args:
        text: What a server, or the system, says.
        address: Of the index that it is about.
    """
    text = _NODE.sub(_REPLACED, text)
    for host in {host.strip("[]") for host, _ in address.nodes}:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-]|\.\w)", _REPLACED, text, flags=re.IGNORECASE)
    return _NAMES.sub("", text)
