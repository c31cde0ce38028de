"""Indexes in folders: BM25 in Tantivy, and vectors beside it. A search by words imports neither FAISS nor NumPy."""
