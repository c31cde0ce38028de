"""An index in Elasticsearch, for corpora and users that outgrow one machine.

::

    from keqa.retrievers import read_corpus
    from keqa.retrievers.elasticsearch import ElasticsearchRetriever, load_index

    load_index(read_corpus(["psgs_w100.tsv"]), "elasticsearch://localhost:9200/wikipedia")
    retriever = ElasticsearchRetriever.open("elasticsearch://localhost:9200/wikipedia")

The address is ``elasticsearch://host:port/name``; several nodes are separated by commas
(``elasticsearch://one:9200,two:9200/name``), and a cluster that speaks TLS is ``elasticsearch+https://host:port/name``.
Without a port it is 9200.

Loaded with an embedding model, an index has vectors beside the text, which ``elasticsearch+dense://host:9200/name``
searches by kNN (``elasticsearch+dense+https://`` where the cluster speaks TLS). Any model but the one that comes as a
package is named: ``elasticsearch+dense://host:9200/name@model``. Both addresses, joined by a comma, are a hybrid.

Credentials are never part of the address. They come from the environment, as all about the connection does:

=============================  =================================================================
``ELASTICSEARCH_API_KEY``      an API key, encoded or as ``id:key``
``ELASTICSEARCH_USERNAME``     together with ``ELASTICSEARCH_PASSWORD``, where there is no API key
``ELASTICSEARCH_CA_CERTS``     file of the certificate authority that signed the cluster's certificate
``ELASTICSEARCH_FINGERPRINT``  SHA-256 fingerprint of the certificate, in the place of such a file
``ELASTICSEARCH_TIMEOUT``      seconds that an answer is waited for, 30 where it is not set
=============================  =================================================================

What they must allow on ``name`` and on ``name-*``, the index behind the name:

* ``read`` and ``view_index_metadata`` to search; ``monitor``, on them and on the cluster, for all that
  ``keqa index info`` reports;
* ``manage``, ``write`` and ``read`` to load; ``monitor`` on the cluster to wait for the copies of the new index.
"""

from __future__ import annotations

from keqa.retrievers.elasticsearch.address import address_and_model, dense_address, index_address, is_address
from keqa.retrievers.elasticsearch.lifecycle import IndexFacts
from keqa.retrievers.elasticsearch.loading import load_index
from keqa.retrievers.elasticsearch.retriever import ElasticsearchDenseRetriever, ElasticsearchRetriever

__all__ = [
    "ElasticsearchDenseRetriever",
    "ElasticsearchRetriever",
    "IndexFacts",
    "address_and_model",
    "dense_address",
    "index_address",
    "is_address",
    "load_index",
]
