"""The utility reference and its retriever R_u (KEQA, section 3.4)."""
