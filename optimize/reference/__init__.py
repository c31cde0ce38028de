"""Building the utility reference from a train split (KEQA, section 3.4)."""
