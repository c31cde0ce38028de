from fixtures.serving import serve, slow, writing

__all__ = ["serve", "slow", "writing"]
