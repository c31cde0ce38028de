from fixtures.browser import browser, open_page
from fixtures.serving import about_carmouth, serve, slow, writing

__all__ = ["about_carmouth", "browser", "open_page", "serve", "slow", "writing"]
