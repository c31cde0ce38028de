"""What is closed where its block ends."""

from __future__ import annotations

from typing import Self


class Closing:
    """A context manager that closes itself."""

    def close(self) -> None:
        """Close the file, so that it can be opened again."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
