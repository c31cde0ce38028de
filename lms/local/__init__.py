"""Causal language models in this process: loading, batched decoding."""
