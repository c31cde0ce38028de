"""Questions with their gold answers: benchmarks by name, and the user's own files, as one example type."""
