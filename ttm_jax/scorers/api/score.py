"""The answers to a plan: from the cache what is there, from the server what is not.

plan = make_plan(dataset, Question(model="gpt-4.1-2025-04-14"), runs=4)
replies = fetch(plan, Path("runs/api_responses.sqlite"), from_environment("OPENAI_API_KEY"))
scores = read_run(replies, run=1).scores
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.scorers.api.attempt import Asker
from ttm_jax.scorers.api.cache import ResponseCache
from ttm_jax.scorers.api.client import ChatClient
from ttm_jax.scorers.api.halt import Halt
from ttm_jax.scorers.api.images import EncodedImages
from ttm_jax.scorers.api.money import Ledger
from ttm_jax.scorers.api.plan import Job, Plan, image_sources
from ttm_jax.scorers.api.progress import Progress
from ttm_jax.scorers.api.reply import Reply
from ttm_jax.scorers.api.runner import Runner
from ttm_jax.scorers.api.secret import Secret
from ttm_jax.scorers.api.settings import Limits, Prices, Usage
from ttm_jax.signals import StopFlag

_LOOK_AT_SIGNALS = 0.1  # seconds


@dataclass(frozen=True, eq=False)
class Replies:
    """Every answer of a plan, by key, and what it took; `sent` and `retried` are this command's."""

    plan: Plan
    by_key: dict[str, Reply]
    used: Usage
    lost: Usage
    sent: int = 0
    retried: int = 0


@dataclass(frozen=True)
class Outlook:
    """What a plan would take from here."""

    requests: int
    answered: int
    spent: Usage
    estimate: Usage


def look_ahead(plan: Plan, cache_path: Path) -> Outlook:
    """Count and estimate, and send nothing; no file is made."""
    jobs = plan.requests()
    found: dict[str, Reply] = {}
    lost = Usage()
    if cache_path.exists():
        with ResponseCache(cache_path) as cache:
            found, lost = _cached(cache, jobs)
    missing = [job for job in jobs if job.key not in found]
    return Outlook(len(jobs), len(found), total_usage(found) + lost, _estimate(missing))


def fetch(
    plan: Plan,
    cache_path: Path,
    secret: Secret,
    *,
    limits: Limits | None = None,
    prices: Prices | None = None,
    budget: float | None = None,
    progress: Progress | None = None,
) -> Replies:
    """Ask what has not been asked. Every answer is on disk before it counts.

    SIGTERM and Ctrl-C stop in order: `RunInterrupted`, with all answers kept.
    """
    with StopFlag() as stop:
        work = _fetch(
            plan,
            cache_path,
            secret,
            limits or Limits(),
            Ledger(prices or Prices(), budget),
            progress or Progress(),
            stop,
        )
        return _run(work)


async def _fetch(
    plan: Plan,
    cache_path: Path,
    secret: Secret,
    limits: Limits,
    ledger: Ledger,
    progress: Progress,
    stop: StopFlag,
) -> Replies:
    jobs = plan.requests()
    with ResponseCache(cache_path) as cache:
        found, ledger.lost = _cached(cache, jobs)
        ledger.used = total_usage(found)
        for job in jobs:
            if job.key in found:
                ledger.learn(job.estimate, found[job.key].usage or Usage())
        missing = [job for job in jobs if job.key not in found]
        if not missing:
            return Replies(plan, found, ledger.used, ledger.lost)
        client = ChatClient(plan.question, secret, limits.timeout)
        question = plan.question
        images = EncodedImages(
            image_sources(plan.dataset), question.image_format, question.max_image_size
        )
        each = ledger.prices.cost(_estimate(missing)) / len(missing)
        halt = Halt()
        asker = Asker(client, cache, ledger, limits, halt)
        runner = Runner(
            missing,
            asker,
            images,
            cache,
            ledger,
            halt,
            question.model,
            on_change=lambda: progress.update(
                len(found) + len(runner.replies),
                len(jobs),
                ledger,
                ledger.expected(len(missing) - len(runner.replies), each),
            ),
        )
        watch = asyncio.create_task(_watch(stop, halt, cache_path))
        try:
            with progress:
                await runner.run(min(limits.concurrency, len(missing)))
        finally:
            watch.cancel()
            await client.close()
        by_key = found | runner.replies
        return Replies(plan, by_key, ledger.used, ledger.lost, ledger.answers_now, asker.retried)


def total_usage(replies: dict[str, Reply]) -> Usage:
    return sum((reply.usage or Usage() for reply in replies.values()), Usage())


def _cached(cache: ResponseCache, jobs: list[Job]) -> tuple[dict[str, Reply], Usage]:
    keys = [job.key for job in jobs]
    return cache.get_many(keys), cache.lost(keys)


def _estimate(jobs: list[Job]) -> Usage:
    return sum((job.estimate for job in jobs), Usage())


async def _watch(stop: StopFlag, halt: Halt, cache_path: Path) -> None:
    # A signal handler does not wake a sleeping event loop, so the flag is looked at.
    while not stop.is_set():
        await asyncio.sleep(_LOOK_AT_SIGNALS)
    halt.set(stop.error(cache_path))


def _run(work: Coroutine[Any, Any, Replies]) -> Replies:
    """`asyncio.run`, also where a loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
