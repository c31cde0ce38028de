"""A scripted world, a server that answers from it and fails in many ways, and what is checked of runs against it."""
