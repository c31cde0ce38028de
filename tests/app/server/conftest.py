from fixtures.serving import serve, slow

__all__ = ["serve", "slow"]
