"""From the likeliest first tokens of an answer to the probability of Yes: VQAScore.

VQAScore (Lin et al. 2024, the paper's score for GPT-4.1) is the probability that the model answers
"Yes". An API shows only the likeliest tokens, so the answer can be missing from them.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ttm_jax.scorers.api.reply import UNLIKELY, Reply

Rule = Literal["variants", "t2v_metrics"]
Kind = Literal["yes", "no", "neither", "refusal", "content_filter", "empty"]
ANSWERED = ("yes", "no")
# Around the word: spaces as text or as a tokenizer writes them, quotes, punctuation, markdown.
_AROUND = " \t\r\n\u00a0\u0120\u010a\u2581\"'`“”‘’„«».,;:!?…*_#()[]{}<>-–—|/\\"


@dataclass(frozen=True)
class Answer:
    """`score` is P(Yes) where `kind` is "yes", 1 - P(No) where it is "no", and else None.

    `mass` is how much probability the seen Yes and No tokens hold together: far below 1, the model
    would rather have said something else.
    """

    kind: Kind
    score: float | None
    mass: float


def read_answer(reply: Reply, rule: Rule = "variants") -> Answer:
    """The score in a reply, or why there is none.

    "variants" sums over every spelling of Yes (case, spaces, quotes, punctuation) and looks at No
    only where there is no Yes. "t2v_metrics" does as that library: the first of the exact tokens
    Yes, yes, No, no in the list decides alone, in float32.
    """
    if reply.finish_reason == "content_filter":
        return Answer("content_filter", None, 0.0)
    if reply.refusal is not None:
        return Answer("refusal", None, 0.0)
    if not reply.top:
        return Answer("empty", None, 0.0)
    seen = [(token, logprob) for token, logprob in reply.top if logprob > UNLIKELY]
    yes, no = _probability(seen, "yes"), _probability(seen, "no")
    mass = min((yes or 0.0) + (no or 0.0), 1.0)
    if rule == "t2v_metrics":
        return _first_listed(seen, mass)
    if yes is not None:
        return Answer("yes", min(yes, 1.0), mass)  # rounded probabilities can sum to 1.0000001
    if no is not None:
        return Answer("no", max(1.0 - no, 0.0), mass)
    return Answer("neither", None, 0.0)


def means(token: str) -> str:
    """The bare word of a token: ' "Yes.' and 'YES' both mean yes."""
    return token.strip(_AROUND).casefold()


def _probability(seen: Iterable[tuple[str, float]], word: str) -> float | None:
    """Summed over the distinct tokens that mean the word; None if there is none."""
    found = [logprob for token, logprob in seen if means(token) == word]
    return math.fsum(map(math.exp, found)) if found else None


def _first_listed(seen: Iterable[tuple[str, float]], mass: float) -> Answer:
    for token, logprob in seen:
        if token in ("Yes", "yes"):
            return Answer("yes", float(np.exp(np.float32(logprob))), mass)
        if token in ("No", "no"):
            return Answer("no", float(np.float32(1) - np.exp(np.float32(logprob))), mass)
    return Answer("neither", None, mass)
