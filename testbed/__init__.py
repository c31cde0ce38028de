"""The fictional encyclopedia, and the small language model that is trained on a part of it."""
