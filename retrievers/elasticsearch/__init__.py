"""An index in Elasticsearch, for corpora and users that outgrow one machine.

It is ``elasticsearch://host:port/name`` (port 9200 by default; several nodes with commas), or
``elasticsearch+https://host:port/name`` of a cluster that speaks TLS. Loaded with an embedding model, it has vectors
beside the text, which ``elasticsearch+dense://host:9200/name`` searches by kNN; any model but the one that comes as a
package is named behind it, ``@model``. Credentials are never part of the address: all about the connection comes from
the variables of the environment that `keqa.retrievers.elasticsearch.client` names.

What they must allow on ``name`` and on ``name-*``, the index behind the name: ``read`` and ``view_index_metadata`` to
search, and ``monitor``, on them and on the cluster, for all that ``keqa index info`` reports; ``manage``, ``write`` and
``read`` to load, and ``monitor`` on the cluster to wait for the copies of the new index.
"""
