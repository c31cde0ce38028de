"""The fictional encyclopedia, and the small language model that is told a part of it."""
