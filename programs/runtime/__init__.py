"""How stages call language models and retrievers: sessions, concurrency, costs, retries."""
