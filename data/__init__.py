"""Questions with their gold answers, read from files into one example type."""
