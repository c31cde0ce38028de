"""KEQA: question answering that knows what its language model does not know."""
