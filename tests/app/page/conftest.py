from fixtures.browser import browser, open_page
from fixtures.serving import serve, slow, writing

__all__ = ["browser", "open_page", "serve", "slow", "writing"]
