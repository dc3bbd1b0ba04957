"""Tokens and what they cost: estimated before a run, computed from the server's counts after it.

How many tokens a provider counts for an image depends on the model and does not always match its
documentation. The rules here are OpenAI's (guide "Images and vision", "Calculating costs"); a
user's measurement of GPT-4.1 agrees with them (community.openai.com, topic 1262691: 97 tokens at
low detail and 267 at high detail for 128 x 64 pixels and five words). For other servers, pass the
number of tokens per image.
"""

import math
from dataclasses import dataclass
from typing import Literal

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.ranges import check_range
from ttm_jax.scorers.api.rate_limit import RateLimits

Detail = Literal["low", "high", "auto"]
_MESSAGE = 10  # tokens for roles and separators around the text
_BYTES_PER_TOKEN = 3.5  # English has about 4.5; estimating a little high is the safe side
# model name prefix -> (tokens per image, tokens per 512-pixel tile)
_TILES = {
    "gpt-4o-mini": (2833, 5667),
    "gpt-4": (85, 170),  # gpt-4-turbo, gpt-4o, gpt-4.1, gpt-4.5
    "": (85, 170),
}
# model name prefix -> tokens per patch of 32 x 32 pixels, of which an image has at most 1536
_PATCHES = {"gpt-4.1-mini": 1.62, "gpt-4.1-nano": 2.46, "o4-mini": 1.72}
_MOST_PATCHES = 1536


@dataclass(frozen=True)
class Usage:
    """Token counts. `cached` is the part of `input` that the server had in its prompt cache."""

    input: int = 0
    cached: int = 0
    output: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input, self.cached + other.cached, self.output + other.output
        )


@dataclass(frozen=True)
class Prices:
    """USD per million tokens, from the provider's price list. Without them, costs are unknown."""

    price_input: float | None = None
    """USD per million input tokens."""
    price_output: float | None = None
    """USD per million output tokens."""
    price_cached_input: float | None = None
    """USD per million cached input tokens (default: the price of other input)."""

    def __post_init__(self) -> None:
        for name in ("price_input", "price_output", "price_cached_input"):
            check_range(name, getattr(self, name), 0, 1e6)
        if (self.price_input is None) != (self.price_output is None):
            raise InputError("set both `price_input` and `price_output`, or neither")
        if self.price_cached_input is not None and self.price_input is None:
            raise InputError("`price_cached_input` needs `price_input` and `price_output` too")

    @property
    def known(self) -> bool:
        return self.price_input is not None

    def cost(self, usage: Usage) -> float:
        """USD; 0 if the prices are unknown."""
        if self.price_input is None or self.price_output is None:
            return 0.0
        cached = self.price_input if self.price_cached_input is None else self.price_cached_input
        fresh = usage.input - usage.cached
        total = fresh * self.price_input + usage.cached * cached + usage.output * self.price_output
        return total / 1e6


@dataclass(frozen=True)
class CostEstimate:
    """What a plan has used so far, and what the requests without an answer are expected to use."""

    requests: int
    answered: int
    spent: Usage
    remaining: Usage

    def describe(self, prices: Prices, rates: RateLimits) -> str:
        """The estimate as text, a few lines."""
        missing, tokens = self.requests - self.answered, self.remaining
        lines = [
            f"requests: {self.requests}, of which {self.answered} are answered and "
            f"{missing} would be sent",
            f"tokens (estimate): {tokens.input:,} in, {tokens.output:,} out",
        ]
        if prices.known:
            lines.append(
                f"cost (estimate): {format_usd(prices.cost(tokens))}; already spent: "
                f"{format_usd(prices.cost(self.spent))}"
            )
        else:
            lines.append("cost: unknown; set `price_input` and `price_output`")
        minutes = [
            amount / limit
            for amount, limit in (
                (missing, rates.requests_per_minute),
                (tokens.input, rates.tokens_per_minute),
            )
            if limit is not None
        ]
        if minutes:
            lines.append(f"time at these limits: at least {max(minutes):.1f} minutes")
        lines.append("image tokens are estimated by OpenAI's rule for the model; nothing was sent")
        return "\n".join(lines)


def format_usd(amount: float) -> str:
    """$12.34, or $0.0123 for small amounts."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def text_tokens(text: str) -> int:
    """Estimated tokens of a prompt, with the message around it."""
    return _MESSAGE + math.ceil(len(text.encode()) / _BYTES_PER_TOKEN)


def image_tokens(width: int, height: int, model: str, detail: Detail) -> int:
    """Estimated tokens of an image. `auto` counts as `high`, which the server may choose."""
    per_patch = _by_prefix(_PATCHES, model)
    if per_patch is not None:
        return math.ceil(per_patch * _patches(width, height))
    whole, tile = _by_prefix(_TILES, model)
    return whole if detail == "low" else whole + tile * _tiles(width, height)


def _tiles(width: int, height: int) -> int:
    """The image is scaled down to fit 2048 x 2048, then to a shorter side of 768; never up."""
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    return math.ceil(round(width * scale) / 512) * math.ceil(round(height * scale) / 512)


def _patches(width: int, height: int) -> int:
    return min(math.ceil(width / 32) * math.ceil(height / 32), _MOST_PATCHES)


def _by_prefix(table: dict, model: str):
    matching = [prefix for prefix in table if model.startswith(prefix)]
    return table[max(matching, key=len)] if matching else None
