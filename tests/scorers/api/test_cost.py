"""Token estimates and prices."""

import re

import pytest

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.cost import Prices, Usage, image_tokens, text_tokens
from ttm_jax.scorers.api.request import RequestSettings


@pytest.mark.parametrize(
    ("size", "model", "detail", "tokens"),
    [
        # OpenAI's own examples
        ((1024, 1024), "gpt-4o", "high", 765),
        ((2048, 4096), "gpt-4.1-2025-04-14", "high", 1105),
        ((4096, 8192), "gpt-4.1-2025-04-14", "low", 85),
        # measured by a user, without 12 tokens of text: a small image is not enlarged
        ((128, 64), "gpt-4.1-2025-04-14", "high", 255),
        ((128, 64), "gpt-4.1-2025-04-14", "auto", 255),
        ((128, 64), "gpt-4o-mini-2024-07-18", "low", 2833),
        ((128, 64), "gpt-4o-mini-2024-07-18", "high", 8500),
        ((128, 64), "gpt-4.1-mini-2025-04-14", "high", 13),
        ((2400, 1800), "gpt-4.1-mini", "high", 2489),
        ((512, 512), "a-model-of-your-own", "high", 255),
    ],
)
def test_image_tokens(size, model, detail, tokens):
    assert image_tokens(*size, model, detail) == tokens


def test_text_tokens_are_more_than_words_and_marks():
    """A common word is one token, and so is a mark; the estimate must not be below that."""
    prompt = RequestSettings().prompt_for("an old person kisses a young person")
    pieces = re.findall(r"\w+|[^\w\s]", prompt)
    assert len(pieces) < text_tokens(prompt) < 2.5 * len(pieces)


def test_cost():
    prices = Prices(price_input=2.0, price_output=8.0, price_cached_input=0.5)
    assert prices.cost(Usage(1_000_000, 400_000, 10_000)) == pytest.approx(1.2 + 0.2 + 0.08)
    assert Prices(2.0, 8.0).cost(Usage(1_000_000, 400_000, 0)) == pytest.approx(2.0)
    assert not Prices().known


@pytest.mark.parametrize(
    "prices", [(2.0, None, None), (None, 8.0, None), (None, None, 1.0), (-1.0, 1.0, None)]
)
def test_prices_that_are_refused(prices):
    with pytest.raises(InputError):
        Prices(*prices)
