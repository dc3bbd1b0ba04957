"""A server's reply: parsed strictly, reduced to what the score needs, and read as P(Yes).

VQAScore (Lin et al. 2024, the paper's score for GPT-4.1) is the probability that the model answers
"Yes". An API shows only the most likely tokens, so the answer can be missing from them.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ttm_jax.scorers.api.cost import Usage

TokenRule = Literal["variants", "t2v_metrics", "t2v_metrics_old"]
AnswerKind = Literal["yes", "no", "neither", "refusal", "content_filter", "empty"]
ANSWERED = ("yes", "no")
UNLIKELY = -9999.0  # the protocol's value for "not among the most likely": the rest is unknown
_MOST_TOKENS = 1000  # in the list; more than 100 cannot be asked for
_LONGEST_TEXT = 10_000  # characters of an answer that are kept; one token was asked for
_MOST_USAGE = 10**9  # tokens that one request can take; larger counts are not believed
_STORED = {"finish_reason", "content", "refusal", "top", "served_model", "fingerprint"}
# What may surround the word: spaces, as text or as tokenizers write them, quotes, punctuation,
# markdown.
_AROUND = " \t\r\n\u00a0\u0120\u010a\u2581\"'`“”‘’„«».,;:!?…*_#()[]{}<>-–—|/\\"


class UnreadableReply(Exception):
    """A reply with status 200 that is not a chat completion, or only part of one."""


class MissingLogprobs(Exception):
    """A reply with text but without log-probabilities: this server or model has none."""


@dataclass(frozen=True)
class Reply:
    """One reply. `top` lists (token, log-probability) for the first position, in the server's
    order and without duplicates; None if the server gave no answer (refused, filtered).
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
        """The inverse of `to_json`. Raises `ValueError` for anything that it did not write."""
        try:
            values = json.loads(text, parse_constant=_refuse_constant)
        except (TypeError, RecursionError) as error:
            raise ValueError("not JSON") from error
        if not isinstance(values, dict) or values.keys() != _STORED:
            raise ValueError("other fields than those of a reply")
        top = values.pop("top")
        if not all(value is None or isinstance(value, str) for value in values.values()):
            raise ValueError("a field that is not text")
        return cls(top=None if top is None else _stored_top(top), usage=usage, **values)


@dataclass(frozen=True)
class Answer:
    """`score` is P(Yes) if `kind` is "yes", 1 - P(No) if it is "no", and None otherwise.

    `mass` is the total probability of the Yes and No tokens. Far below 1, the model would rather
    have said something else.
    """

    kind: AnswerKind
    score: float | None
    mass: float


def filtered_reply(message: str) -> Reply:
    """The reply that stands for a content filter's error 400 (as Azure's)."""
    return Reply("content_filter", None, message, None, usage=Usage())


def parse_reply(data: bytes | str, content_type: str | None = None) -> Reply:
    """Parse the body of a chat completion. Raises `UnreadableReply` or `MissingLogprobs`."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if content_type is not None and "json" not in content_type.lower():
        raise UnreadableReply(f"{content_type.split(';')[0]} instead of JSON ({_start(text)})")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableReply(f"not JSON, or nested too deeply ({_start(text)})") from None
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


def read_answer(reply: Reply, rule: TokenRule = "variants") -> Answer:
    """The score in a reply, or why there is none.

    "variants" sums over all spellings of Yes (case, spaces, quotes, punctuation) and looks at No
    only if there is no Yes. "t2v_metrics" does what that library does, in float32: one spelling of
    Yes (any case, spaces around it) counts, the last one listed, and No only if there is no Yes.
    "t2v_metrics_old" does what it did before: the first of the exact tokens Yes, yes, No, no in the
    list decides alone.
    """
    if reply.finish_reason == "content_filter":
        return Answer("content_filter", None, 0.0)
    if reply.refusal is not None:
        return Answer("refusal", None, 0.0)
    if not reply.top:
        return Answer("empty", None, 0.0)
    listed = [(token, logprob) for token, logprob in reply.top if logprob > UNLIKELY]
    yes, no = _probability(listed, "yes"), _probability(listed, "no")
    mass = min((yes or 0.0) + (no or 0.0), 1.0)
    if rule == "t2v_metrics":
        return _last_listed(listed, mass)
    if rule == "t2v_metrics_old":
        return _first_exact(listed, mass)
    if yes is not None:
        return Answer("yes", min(yes, 1.0), mass)  # rounded probabilities can sum to 1.0000001
    if no is not None:
        return Answer("no", max(1.0 - no, 0.0), mass)
    return Answer("neither", None, 0.0)


def bare_word(token: str) -> str:
    """The word in a token: "yes" for both ' "Yes.' and 'YES'."""
    return token.strip(_AROUND).casefold()


def _probability(listed: Iterable[tuple[str, float]], word: str) -> float | None:
    """Summed over the distinct tokens for a word; None if there is none."""
    found = [logprob for token, logprob in listed if bare_word(token) == word]
    return math.fsum(map(math.exp, found)) if found else None


def _last_listed(listed: Iterable[tuple[str, float]], mass: float) -> Answer:
    found = {token.strip().lower(): logprob for token, logprob in listed}  # later ones replace
    if "yes" in found:
        return _in_float32("yes", found["yes"], mass)
    if "no" in found:
        return _in_float32("no", found["no"], mass)
    return Answer("neither", None, mass)


def _first_exact(listed: Iterable[tuple[str, float]], mass: float) -> Answer:
    for token, logprob in listed:
        if token in ("Yes", "yes"):
            return _in_float32("yes", logprob, mass)
        if token in ("No", "no"):
            return _in_float32("no", logprob, mass)
    return Answer("neither", None, mass)


def _in_float32(kind: Literal["yes", "no"], logprob: float, mass: float) -> Answer:
    probability = np.exp(np.float32(logprob))
    score = probability if kind == "yes" else np.float32(1) - probability
    return Answer(kind, float(score), mass)


def _first_position(logprobs: Any) -> tuple[tuple[str, float], ...] | None:
    """The most likely tokens in the server's order, then the chosen one if it is not listed."""
    positions = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not positions:
        return None
    try:
        first = positions[0]
        distinct: dict[Any, tuple[str, float]] = {}
        for entry in [*(first.get("top_logprobs") or ())[:_MOST_TOKENS], first]:
            token, logprob = _text(entry["token"]), float(entry["logprob"])
            if token is None or math.isnan(logprob) or logprob > 0.01:
                raise ValueError
            identity = tuple(entry.get("bytes") or ()) or token
            # JSON has no infinity, and rounding can leave a certain token slightly above 0.
            distinct.setdefault(identity, (token, min(max(logprob, UNLIKELY), 0.0)))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError):
        raise UnreadableReply("log-probabilities that are not token and number") from None
    return tuple(distinct.values())


def _stored_top(top: Any) -> tuple[tuple[str, float], ...]:
    try:
        pairs = tuple((token, logprob) for token, logprob in top)
    except (TypeError, ValueError) as error:
        raise ValueError("tokens that are not pairs") from error
    for token, logprob in pairs:
        number = isinstance(logprob, (int, float)) and not isinstance(logprob, bool)
        if not isinstance(token, str) or not number:
            raise ValueError("tokens that are not text and number")
        if not UNLIKELY <= logprob <= 0:
            raise ValueError(f"a log-probability of {logprob}; expected {UNLIKELY:g} to 0")
    return tuple((token, float(logprob)) for token, logprob in pairs)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name}, which is not JSON")


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
    if any(isinstance(n, bool) or not isinstance(n, int) for n in counts):
        return None
    if not all(0 <= n <= _MOST_USAGE for n in counts):
        return None
    return Usage(counts[0], min(counts[1], counts[0]), counts[2])


def _text(value: Any) -> str | None:
    """A string that can be stored: JSON can contain half a surrogate pair, UTF-8 cannot."""
    if not isinstance(value, str):
        return None
    return value[:_LONGEST_TEXT].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _start(text: str) -> str:
    words = " ".join(text[:1000].split())
    return f"it begins {words[:80]!r}" if words else "it is empty"
