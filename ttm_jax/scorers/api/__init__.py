"""Image-text models behind a chat-completions API (OpenAI, Azure, vLLM, ...), scored by VQAScore.

    request.py      settings, prompts and the plan: which requests a dataset needs
    images.py       images as data URLs
    cost.py         tokens, prices and the cost estimate before a run
    cache.py        answers on disk
    fetch.py        the requests without a cached answer, several at a time
    retry.py        one request until it is answered: retries and back-off
    rate_limit.py   requests and tokens per minute
    budget.py       the budget, enforced before a request is sent
    client.py       one HTTP request with the official package, and its errors
    api_key.py      the key, from the environment
    reply.py        the server's reply, and P(Yes) in it
    scores.py       scores[group, image, text], missing answers, score files

The wording of the prompts is in `ttm_jax/inputs/vqa_prompts.py`, the user's guide in docs/api.md.
Importing this package imports neither openai nor jax.
"""

from ttm_jax.scorers.api.api_key import ApiKey, read_api_key
from ttm_jax.scorers.api.budget import check_budget
from ttm_jax.scorers.api.cost import CostEstimate, Prices, Usage
from ttm_jax.scorers.api.fetch import Replies, estimate_cost, fetch_replies
from ttm_jax.scorers.api.rate_limit import RateLimits
from ttm_jax.scorers.api.reply import Answer, TokenRule, read_answer
from ttm_jax.scorers.api.request import Plan, RequestSettings, make_plan
from ttm_jax.scorers.api.retry import RetryPolicy
from ttm_jax.scorers.api.scores import MissingPolicy, RunScores, read_run, resolve_missing

__all__ = [
    "Answer",
    "ApiKey",
    "CostEstimate",
    "MissingPolicy",
    "Plan",
    "Prices",
    "RateLimits",
    "Replies",
    "RequestSettings",
    "RetryPolicy",
    "RunScores",
    "TokenRule",
    "Usage",
    "check_budget",
    "estimate_cost",
    "fetch_replies",
    "make_plan",
    "read_answer",
    "read_api_key",
    "read_run",
    "resolve_missing",
]
