"""What `benchmarks/scale.py` measures, and with what."""
