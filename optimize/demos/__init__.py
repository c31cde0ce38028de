"""Demonstrations: where they come from, and which of them serve best."""
