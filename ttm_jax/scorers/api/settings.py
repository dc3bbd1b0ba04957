"""What is asked, how fast, and at what price: the settings of a model behind an API."""

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from ttm_jax.errors import InputError

OPENAI = "https://api.openai.com/v1"
PAPER_MODEL = "gpt-4.1-2025-04-14"  # paper, footnote of Sec. 1
# `--prompt NAME` for one of these, or a template of one's own.
PROMPTS = {
    "paper": 'Does this image show "{caption}"? Please answer "Yes" or "No".',  # Sec. 4.3
    "t2v_metrics": 'Does this figure show "{caption}"? Please answer yes or no.',
}

Detail = Literal["low", "high", "auto"]
ImageFormat = Literal["keep", "png", "jpeg"]
TokenLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True)
class Question:
    """All that decides an answer; two requests with the same question share an answer."""

    model: str = PAPER_MODEL
    """The name that the server knows the model by; with a date, so that it stays the same."""
    base_url: str = OPENAI
    """Where the server is: OpenAI, Azure (https://NAME.openai.azure.com/openai/v1), vLLM, ..."""
    prompt: str = "paper"
    """The question: `paper`, `t2v_metrics`, or a text of your own that holds {caption}."""
    image_first: bool = True
    """The image before the question, as in the paper's prompt; t2v_metrics sends it after."""
    detail: Detail = "auto"
    """How closely the server looks: `low` is cheap, `high` is not, `auto` lets it choose."""
    image_format: ImageFormat = "keep"
    """`keep` sends files as they are (others as PNG); `png` and `jpeg` encode every image anew."""
    max_image_size: int | None = None
    """Shrink images whose longer side has more pixels than this before they are sent."""
    top_logprobs: int = 20
    """How many of the likeliest first tokens to ask for; OpenAI gives at most 20."""
    token_limit: TokenLimit = "max_tokens"
    """How the server calls the limit on the answer's length (one token)."""

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise InputError("the model has no name; give --model, for example " + PAPER_MODEL)
        _check_url(self.base_url)
        if "{caption}" not in self.template:
            raise InputError(
                f"the prompt {self.prompt!r} has no place for the caption; write {{caption}} where "
                f"it belongs, or give one of {', '.join(PROMPTS)}"
            )
        if not 1 <= self.top_logprobs <= 100:
            raise InputError(f"--top-logprobs is {self.top_logprobs}; expected 1 to 20 (or more)")
        if self.max_image_size is not None and self.max_image_size < 16:
            raise InputError(f"--max-image-size is {self.max_image_size}; expected 16 or more")

    @property
    def template(self) -> str:
        return PROMPTS.get(self.prompt, self.prompt)

    @property
    def address(self) -> str:
        """The base URL in one spelling."""
        return self.base_url.rstrip("/")

    def ask(self, caption: str) -> str:
        return self.template.replace("{caption}", caption)  # a caption may hold braces itself


@dataclass(frozen=True)
class Limits:
    """How fast to ask, and how patiently."""

    concurrency: int = 16
    """How many requests may be under way at the same time."""
    requests_per_minute: float | None = None
    """Start at most so many requests a minute (your account's limit, or a little less)."""
    tokens_per_minute: float | None = None
    """Send at most so many tokens a minute."""
    timeout: float = 60.0
    """Seconds to wait for one answer before it counts as lost."""
    retries: int = 8
    """How often a request is sent again after 429, 5xx, a time-out or a broken connection."""
    backoff: float = 1.0
    """Seconds: the first wait is up to this long, and the longest doubles with every retry."""
    longest_backoff: float = 60.0
    """No wait of our own is longer than this."""
    longest_retry_after: float = 300.0
    """If the server asks to wait longer than this, stop: the same command goes on later."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "timeout", "longest_backoff", "longest_retry_after"):
            _positive(name, getattr(self, name))
        for name in ("requests_per_minute", "tokens_per_minute"):
            if getattr(self, name) is not None:
                _positive(name, getattr(self, name))
        if self.retries < 0 or self.backoff < 0:
            raise InputError("--retries and --backoff cannot be negative")


@dataclass(frozen=True)
class Usage:
    """Tokens of a request; `cached` is the part of `input` that the server had seen before."""

    input: int = 0
    cached: int = 0
    output: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input, self.cached + other.cached, self.output + other.output
        )


@dataclass(frozen=True)
class Prices:
    """USD for a million tokens, from the provider's price list; without them costs are unknown."""

    price_input: float | None = None
    """USD for a million input tokens."""
    price_output: float | None = None
    """USD for a million output tokens."""
    price_cached_input: float | None = None
    """USD for a million input tokens that the server had cached (default: as other input)."""

    def __post_init__(self) -> None:
        given = (self.price_input, self.price_output, self.price_cached_input)
        if any(price is not None and not 0 <= price < 1e6 for price in given):
            raise InputError("prices are USD for a million tokens; expected 0 or more")
        if (self.price_input is None) != (self.price_output is None):
            raise InputError("give both --price-input and --price-output, or neither")
        if self.price_cached_input is not None and self.price_input is None:
            raise InputError("--price-cached-input needs --price-input and --price-output too")

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


def _positive(name: str, value: float | int) -> None:
    if not value > 0:
        raise InputError(f"--{name.replace('_', '-')} is {value}; expected more than 0")


def _check_url(url: str) -> None:
    """A plain http(s) address: a password or a query in it would end up in files and messages."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise InputError("--base-url is not an http(s) address; expected one such as " + OPENAI)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InputError(
            f"--base-url for {host} holds a user name, a password or a query; give the plain "
            "address: the key comes from the environment"
        )
