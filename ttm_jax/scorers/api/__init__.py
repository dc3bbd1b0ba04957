"""Image-text models behind a chat-completions API (OpenAI, Azure, vLLM, ...), scored by VQAScore.

The way of a score: `plan` (which requests) -> `runner` (several at a time) -> `attempt` (one, until
it is answered) -> `client` (the official package) -> `reply` -> `cache` -> `answers` (P(Yes)) ->
`matrix` (scores[group, image, text]) -> `results` (files and table). docs/api.md tells users.

Importing this package imports neither openai nor jax.
"""

from ttm_jax.scorers.api.answers import Answer, Rule, read_answer
from ttm_jax.scorers.api.matrix import Neither, RunScores, read_run, settle
from ttm_jax.scorers.api.plan import Plan, make_plan
from ttm_jax.scorers.api.score import Replies, fetch, look_ahead
from ttm_jax.scorers.api.secret import Secret, from_environment
from ttm_jax.scorers.api.settings import Limits, Prices, Question, Usage

__all__ = [
    "Answer",
    "Limits",
    "Neither",
    "Plan",
    "Prices",
    "Question",
    "Replies",
    "Rule",
    "RunScores",
    "Secret",
    "Usage",
    "fetch",
    "from_environment",
    "look_ahead",
    "make_plan",
    "read_answer",
    "read_run",
    "settle",
]
