"""An index in Elasticsearch, for corpora and users that outgrow one machine; docs/retrieval.md says what it needs."""
