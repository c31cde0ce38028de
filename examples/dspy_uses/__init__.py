"""The uses of DSPy that `dspy_compatibility.py` tries, by what they are about."""
