import openai
import pytest
from fixtures.serving import about_carmouth, serve, slow, writing

__all__ = ["about_carmouth", "serve", "slow", "writing"]


@pytest.fixture
def client(serving):
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="none", max_retries=0) as made:
        yield made
