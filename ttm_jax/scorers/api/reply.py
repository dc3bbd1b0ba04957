"""What a chat-completions server said, reduced to what the score needs, and strictly read."""

import json
import math
from dataclasses import dataclass
from typing import Any

from ttm_jax.scorers.api.settings import Usage

UNLIKELY = -9999.0  # the protocol's number for "not among the likeliest": nothing is known


class UnreadableReply(Exception):
    """A reply with status 200 that is not a chat completion: broken off, or not ours at all."""


class MissingLogprobs(Exception):
    """An answer in words but without log-probabilities: this server or model does not give them."""


@dataclass(frozen=True)
class Reply:
    """One answer. `top` lists (token, log-probability) of the first position as the server does,
    each distinct token once; it is None where the server gave no answer (refused, filtered).
    """

    finish_reason: str | None
    content: str | None
    refusal: str | None
    top: tuple[tuple[str, float], ...] | None
    served_model: str | None = None
    fingerprint: str | None = None
    usage: Usage | None = None

    def to_json(self) -> str:
        return json.dumps(
            {
                "finish_reason": self.finish_reason,
                "content": self.content,
                "refusal": self.refusal,
                "top": self.top,
                "served_model": self.served_model,
                "fingerprint": self.fingerprint,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str, usage: Usage | None) -> "Reply":
        values = json.loads(text)
        top = values.pop("top")
        pairs = None if top is None else tuple((token, logprob) for token, logprob in top)
        return cls(top=pairs, usage=usage, **values)


def filtered(message: str) -> Reply:
    """The reply that stands for an error 400 of a content filter (Azure answers so)."""
    return Reply("content_filter", None, message, None, usage=Usage())


def read_reply(text: str) -> Reply:
    """The body of a chat completion. Raises `UnreadableReply` or `MissingLogprobs`."""
    try:
        body = json.loads(text)
    except ValueError as error:
        raise UnreadableReply(f"not JSON ({_start(text)})") from error
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UnreadableReply(f"no choices ({_start(text)})")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnreadableReply(f"no message ({_start(text)})")
    reply = Reply(
        finish_reason=_text(choice.get("finish_reason")),
        content=_text(message.get("content")),
        refusal=_text(message.get("refusal")),
        top=_first_position(choice.get("logprobs")),
        served_model=_text(body.get("model")),
        fingerprint=_text(body.get("system_fingerprint")),
        usage=_usage(body.get("usage")),
    )
    withheld = reply.refusal is not None or reply.finish_reason == "content_filter"
    if not reply.top and reply.content and not withheld:
        raise MissingLogprobs
    return reply


def _first_position(logprobs: Any) -> tuple[tuple[str, float], ...] | None:
    """The likeliest tokens in the server's order, then the chosen one if they lack it."""
    positions = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not positions:
        return None
    try:
        first = positions[0]
        distinct: dict[Any, tuple[str, float]] = {}
        for entry in [*(first.get("top_logprobs") or ()), first]:
            token, logprob = entry["token"], float(entry["logprob"])
            if not isinstance(token, str) or math.isnan(logprob) or logprob > 0.01:
                raise ValueError
            identity = tuple(entry.get("bytes") or ()) or token
            # JSON has no infinity; and rounding can leave a certain token a little above 0.
            distinct.setdefault(identity, (token, min(max(logprob, UNLIKELY), 0.0)))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise UnreadableReply("log-probabilities that are not token and number") from error
    return tuple(distinct.values())


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    counts: tuple[Any, Any, Any] = (
        usage.get("prompt_tokens"),
        cached or 0,
        usage.get("completion_tokens"),
    )
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
        return None
    return Usage(counts[0], min(counts[1], counts[0]), counts[2])


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _start(text: str) -> str:
    words = " ".join(text.split())
    return f"it begins {words[:80]!r}" if words else "it is empty"
