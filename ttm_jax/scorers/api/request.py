"""What is asked: the settings of a request, and the requests that a dataset needs."""

import hashlib
import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.inputs.preprocess import ImageSource
from ttm_jax.inputs.vqa_prompts import PROMPTS, check_template, fill
from ttm_jax.scorers.api.api_key import ApiKey, looks_like_key
from ttm_jax.scorers.api.cost import Detail, Usage, image_tokens, text_tokens
from ttm_jax.scorers.api.images import ImageFacts, ImageFormat, inspect_images, sent_size
from ttm_jax.scorers.api.ranges import check_range

OPENAI = "https://api.openai.com/v1"
PAPER_MODEL = "gpt-4.1-2025-04-14"  # paper, footnote of Sec. 1
TokenLimit = Literal["max_tokens", "max_completion_tokens"]
_KEY_VERSION = 1


@dataclass(frozen=True)
class RequestSettings:
    """Everything that decides an answer. Requests with equal settings share cached answers."""

    model: str = PAPER_MODEL
    """The model's name on the server; a dated name keeps its meaning."""
    base_url: str = OPENAI
    """The server: OpenAI, Azure (https://NAME.openai.azure.com/openai/v1), vLLM, ..."""
    prompt: str = "paper"
    """The question: `paper`, `t2v_metrics`, `t2v_metrics_old`, or a text with {text} in it."""
    image_first: bool = True
    """The image comes before the question, as in the paper's prompt; t2v_metrics sends it after."""
    detail: Detail = "auto"
    """The resolution at which the server reads images: `low` is cheap, `auto` lets it choose."""
    image_format: ImageFormat = "keep"
    """`keep` sends PNG, JPEG and WebP files unchanged; `png` and `jpeg` re-encode every image."""
    max_image_size: int | None = None
    """Shrink images whose longer side has more pixels than this."""
    top_logprobs: int = 20
    """How many of the most likely first tokens to ask for; OpenAI allows at most 20."""
    token_limit: TokenLimit = "max_tokens"
    """The server's name for the limit on the answer's length (one token)."""

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise InputError(f"`model` is empty; give the model's name, such as {PAPER_MODEL}")
        _check_url(self.base_url)
        for name in ("model", "base_url"):
            if looks_like_key(getattr(self, name), hex_too=name == "model"):
                raise InputError(
                    f"`{name}` contains what looks like an API key; put the key into an "
                    "environment variable: settings are written to files"
                )
        check_template(self.template)
        check_range("top_logprobs", self.top_logprobs, 1, 100)
        check_range("max_image_size", self.max_image_size, 16, 100_000)

    @property
    def template(self) -> str:
        return PROMPTS.get(self.prompt, self.prompt)

    @property
    def address(self) -> str:
        """The base URL without a trailing slash."""
        return self.base_url.rstrip("/")

    def check_key_absent(self, key: ApiKey) -> None:
        """Raise `InputError` if a setting contains the key: settings are written to files."""
        for name in ("model", "base_url", "prompt"):
            if key.redact(getattr(self, name)) != getattr(self, name):
                raise InputError(
                    f"`{name}` contains the API key; remove it: the key is read from the "
                    "environment, and settings are written to files"
                )

    def prompt_for(self, caption: str) -> str:
        return fill(self.template, caption)

    def body(self, prompt: str, image_url: str) -> dict[str, Any]:
        """The chat completion: one image, one question, one token of answer, no randomness."""
        image = {"type": "image_url", "image_url": {"url": image_url, "detail": self.detail}}
        text = {"type": "text", "text": prompt}
        content = [image, text] if self.image_first else [text, image]
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": self.top_logprobs,
            self.token_limit: 1,
        }


@dataclass(frozen=True)
class Request:
    """Does this image show this caption? `image` and `caption` index the dataset's pools.

    `key` names the answer in the cache.
    """

    key: str
    image: int
    caption: int
    run: int
    prompt: str
    image_sha256: str
    estimate: Usage


@dataclass(frozen=True, eq=False)
class Plan:
    """All requests of all runs; within a run, they are sorted by image."""

    dataset: GroupedDataset
    settings: RequestSettings
    runs: int
    images: Sequence[ImageFacts]
    requests: tuple[Request, ...]

    def distinct_requests(self) -> list[Request]:
        """Without duplicates: the same image in two files is asked about once."""
        return list({r.key: r for r in reversed(self.requests)}.values())[::-1]


def make_plan(
    dataset: GroupedDataset,
    settings: RequestSettings,
    runs: int = 1,
    tokens_per_image: int | None = None,
) -> Plan:
    """One request per run for every image and caption that share a group.

    Args:
      dataset: images as files or pixels, captions as text.
      settings: what to ask, and which model.
      runs: how often to ask everything.
      tokens_per_image: for the cost estimate; by default OpenAI's rule for the model.
    """
    check_range("runs", runs, 1, 10_000)
    check_range("tokens_per_image", tokens_per_image, 1, 10_000_000)
    if dataset.is_preprocessed or not all(isinstance(c, str) for c in dataset.captions):
        raise InputError(
            f"{dataset.name} contains arrays prepared for one particular model; an API needs image "
            "files and captions as text"
        )
    images = inspect_images(image_sources(dataset))
    captions = [str(c) for c in dataset.captions]
    settings_key = _settings_key(settings)
    image_costs = [
        _image_tokens(image, settings) if tokens_per_image is None else tokens_per_image
        for image in images
    ]
    requests = []
    for run in range(1, runs + 1):
        for image, caption in pairs(dataset):
            prompt = settings.prompt_for(captions[caption])
            requests.append(
                Request(
                    key=_key(settings_key, prompt, images[image].sha256, run),
                    image=image,
                    caption=caption,
                    run=run,
                    prompt=prompt,
                    image_sha256=images[image].sha256,
                    estimate=Usage(image_costs[image] + text_tokens(prompt), 0, 1),
                )
            )
    return Plan(dataset, settings, runs, images, tuple(requests))


def image_sources(dataset: GroupedDataset) -> Sequence[ImageSource]:
    assert not isinstance(dataset.images, np.ndarray)  # make_plan refuses preprocessed images
    return dataset.images


def pairs(dataset: GroupedDataset) -> list[tuple[int, int]]:
    """The distinct (image, caption) pairs of all groups, sorted by image."""
    found: set[tuple[int, int]] = set()
    for block in dataset.blocks:
        for row, column in zip(block.image_index, block.text_index, strict=True):
            found.update((int(i), int(t)) for i in row for t in column)
    return sorted(found)


def plan_identity(plan: Plan) -> dict[str, Any]:
    """What must not change when a run folder is reused: the content of its `config.json`."""
    content = hashlib.sha256()
    for block in plan.dataset.blocks:
        content.update(json.dumps([block.shape, *block.ids]).encode())
        content.update(block.image_index.tobytes() + block.text_index.tobytes())
    for text in (*plan.dataset.captions, *(image.sha256 for image in plan.images)):
        content.update(json.dumps(text).encode())
    # Existing run folders record the question with "{caption}" in the place of the caption.
    question = asdict(plan.settings) | {"prompt": plan.settings.prompt_for("{caption}")}
    return {
        "question": question,
        "dataset": {
            "name": plan.dataset.name,
            "groups": len(plan.dataset),
            "sha256": content.hexdigest(),
        },
    }


def _image_tokens(image: ImageFacts, settings: RequestSettings) -> int:
    width, height = sent_size(image.width, image.height, settings.max_image_size)
    return image_tokens(width, height, settings.model, settings.detail)


def _settings_key(settings: RequestSettings) -> dict[str, Any]:
    """All settings except the prompt's template: each key contains the filled prompt instead."""
    fields = asdict(settings) | {"base_url": settings.address}
    del fields["prompt"]
    return fields


def _key(settings: dict[str, Any], prompt: str, image_sha256: str, run: int) -> str:
    # The names in this dict are part of the cache's format: cached answers are found by its hash.
    content = {
        "version": _KEY_VERSION,
        "question": settings,
        "prompt": prompt,
        "image": image_sha256,
        "run": run,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_url(url: str) -> None:
    """Raise `InputError` unless it is a plain http(s) address.

    A password or a query would end up in files and messages, so the messages here do not repeat it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        plausible = _is_host(host) and port != 0 and not re.search(r"[\s\\]", url)
    except ValueError:
        plausible = False
    if not (plausible and url.isprintable() and parts.scheme in ("http", "https")):
        raise InputError(f"`base_url` is not an http(s) address; expected one such as {OPENAI}")
    if "@" in parts.netloc or parts.query or parts.fragment or "?" in url or "#" in url:
        raise InputError(
            f"`base_url` for {host} contains a user name, a password or a query; give the plain "
            "address: the API key is read from the environment"
        )


def _is_host(host: str) -> bool:
    if ":" in host or re.fullmatch(r"[\d.]+", host):
        return bool(ipaddress.ip_address(host))  # raises ValueError
    return all(re.fullmatch(r"[\w-]{1,63}", label) for label in host.removesuffix(".").split("."))
