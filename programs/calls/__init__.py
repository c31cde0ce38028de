"""How stages call language models and retrievers: the question in this context, costs, retries and events."""
