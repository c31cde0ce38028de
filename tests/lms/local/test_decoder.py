import pytest
import torch
from fixtures.drawing import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.lms.local.decoder import DrawSettings, draw

pytestmark = pytest.mark.model

LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]))


@pytest.mark.parametrize(("uniform", "token"), [(0.0, 0), (0.49, 0), (0.51, 1), (0.79, 1), (0.81, 2), (0.999999, 2)])
def test_the_uniform_number_picks_by_cumulative_probability(uniform, token):
    assert draw(LOGITS[:1], [DrawSettings(temperature=1.0)], [uniform]).tolist() == [token]


def test_rows_keep_their_own_settings():
    rows = LOGITS[:1].repeat(5, 1)
    own = [
        DrawSettings(),
        DrawSettings(temperature=1.0),
        DrawSettings(temperature=1.0, top_k=1),
        DrawSettings(temperature=1.0, top_p=0.6),
        DrawSettings(temperature=0.01),
    ]
    assert draw(rows, own, [0.99] * 5).tolist() == [0, 2, 0, 1, 0]


@given(
    st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=30),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.05, 2.0),
    st.floats(0.05, 1.0),
    st.integers(0, 5),
)
@settings(max_examples=at_most(60))
def test_a_row_draws_the_same_alone_and_in_company(logits, uniform, temperature, top_p, top_k):
    row = torch.tensor([logits], dtype=torch.float32)
    own = DrawSettings(temperature=temperature, top_p=top_p, top_k=top_k)
    others = torch.randn(3, len(logits), generator=torch.Generator().manual_seed(1))
    alone = draw(row, [own], [uniform]).item()
    company = draw(
        torch.cat([others, row]),
        [DrawSettings(), DrawSettings(1.0), DrawSettings(0.5, top_k=2), own],
        [0, 0.3, 0.9, uniform],
    )[-1].item()
    assert alone == company
    assert 0 <= alone < len(logits)
