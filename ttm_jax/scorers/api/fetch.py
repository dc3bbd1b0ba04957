"""Replies for a plan: cached ones from the cache, the others from the server, several at a time.

plan = make_plan(dataset, RequestSettings(model="gpt-4.1-2025-04-14"), runs=4)
replies = fetch_replies(plan, Path("runs/api_responses.sqlite"), read_api_key("OPENAI_API_KEY"))
scores = read_run(replies, run=1).scores
"""

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.runs.progress import Progress
from ttm_jax.runs.signals import StopFlag
from ttm_jax.scorers.api.api_key import ApiKey
from ttm_jax.scorers.api.budget import BudgetGate
from ttm_jax.scorers.api.cache import LEASE, ResponseCache
from ttm_jax.scorers.api.client import ChatClient
from ttm_jax.scorers.api.cost import CostEstimate, Prices, Usage
from ttm_jax.scorers.api.images import EncodedImages
from ttm_jax.scorers.api.rate_limit import RateLimiter, RateLimits
from ttm_jax.scorers.api.reply import ANSWERED, Reply, read_answer
from ttm_jax.scorers.api.request import Plan, Request, image_sources
from ttm_jax.scorers.api.retry import RetryingSender, RetryPolicy, Shutdown, ShuttingDown

_GRACE = 10.0  # seconds that requests in flight have to finish when the run stops
_POLL_CLAIMS = 0.2  # seconds between looks at requests that another process has in flight
_POLL_SIGNALS = 0.1  # seconds
_MAX_USELESS = 20  # stop after this many answers if none of them says Yes or No


@dataclass(frozen=True, eq=False)
class Replies:
    """Every reply to a plan, by key, and the tokens used; `sent` and `retried` are of this call."""

    plan: Plan
    by_key: dict[str, Reply]
    used: Usage
    lost: Usage
    sent: int = 0
    retried: int = 0


def estimate_cost(plan: Plan, cache_path: Path) -> CostEstimate:
    """What the plan would cost from here. Sends nothing and creates no file."""
    requests = plan.distinct_requests()
    cached: dict[str, Reply] = {}
    lost = Usage()
    if cache_path.exists():
        with ResponseCache(cache_path) as cache:
            cached, lost = _read_cache(cache, requests)
    missing = [r for r in requests if r.key not in cached]
    return CostEstimate(
        requests=len(requests),
        answered=len(cached),
        spent=_total_usage(cached) + lost,
        remaining=_total_estimate(missing),
    )


def fetch_replies(
    plan: Plan,
    cache_path: Path,
    key: ApiKey,
    *,
    rates: RateLimits | None = None,
    retry: RetryPolicy | None = None,
    prices: Prices | None = None,
    budget: float | None = None,
    progress: Progress | None = None,
) -> Replies:
    """Send the requests that have no cached answer. Every answer is on disk before it counts.

    Args:
      plan: the requests, from `make_plan`.
      cache_path: the SQLite file with the answers; it is created if it does not exist.
      key: the API key.
      rates: limits on requests and tokens per minute, and on requests in flight.
      retry: timeouts, retries and delays.
      prices: for costs and the budget.
      budget: USD that all requests of the plan may cost, including those of earlier calls.
      progress: a display that is updated with every answer.

    SIGTERM and Ctrl-C stop in an orderly way: `RunInterrupted`, with all answers kept.
    """
    gate = BudgetGate(prices or Prices(), budget)
    with StopFlag() as stop:
        work = _fetch(
            plan,
            cache_path,
            key,
            rates or RateLimits(),
            retry or RetryPolicy(),
            gate,
            progress or Progress(),
            stop,
        )
        return _run(work)


async def _fetch(
    plan: Plan,
    cache_path: Path,
    key: ApiKey,
    rates: RateLimits,
    retry: RetryPolicy,
    gate: BudgetGate,
    progress: Progress,
    stop: StopFlag,
) -> Replies:
    requests, settings = plan.distinct_requests(), plan.settings
    with ResponseCache(cache_path) as cache:
        cached, gate.lost = _read_cache(cache, requests)
        gate.used = _total_usage(cached)
        for request in requests:
            if request.key in cached:
                gate.observe(request.estimate, cached[request.key].usage or Usage())
        missing = [r for r in requests if r.key not in cached]
        if not missing:
            return Replies(plan, cached, gate.used, gate.lost)
        client = ChatClient(settings, key, retry.timeout)
        images = EncodedImages(
            image_sources(plan.dataset), settings.image_format, settings.max_image_size
        )
        each = gate.prices.cost(_total_estimate(missing)) / len(missing)

        def show_progress() -> None:
            expected = gate.expected_total(len(missing) - len(workers.replies), each)
            done = len(cached) + len(workers.replies)
            progress.update(done, len(requests), gate.describe(expected))

        shutdown = Shutdown()
        sender = RetryingSender(client, cache, gate, RateLimiter(rates), retry, shutdown)
        workers = _Workers(
            missing, sender, images, cache, gate, shutdown, settings.model, show_progress
        )
        watch = asyncio.create_task(_watch_signals(stop, shutdown, cache_path))
        try:
            with progress:
                await workers.run(min(rates.concurrency, len(missing)))
        finally:
            watch.cancel()
            await client.close()
        replies = cached | workers.replies
        return Replies(plan, replies, gate.used, gate.lost, gate.answers, sender.retried)


class _Workers:
    """Work through the requests, several at a time, and collect the replies by key.

    `on_reply` is called after every reply. The first failure stops the run: no new request starts,
    requests in flight may finish and are kept, then the failure is raised.
    """

    def __init__(
        self,
        requests: list[Request],
        sender: RetryingSender,
        images: EncodedImages,
        cache: ResponseCache,
        gate: BudgetGate,
        shutdown: Shutdown,
        model: str,
        on_reply: Callable[[], None],
    ) -> None:
        self._queue, self._claimed_elsewhere = deque(requests), deque[Request]()
        self._sender, self._images, self._cache = sender, images, cache
        self._gate, self._shutdown, self._model = gate, shutdown, model
        self._on_reply = on_reply
        self._useful = self._useless = 0
        self.replies: dict[str, Reply] = {}

    async def run(self, concurrency: int) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(concurrency)]
        renewal = asyncio.create_task(self._renew_claims())
        stopping = asyncio.create_task(self._shutdown.wait())
        everyone = asyncio.ensure_future(asyncio.wait(workers))
        try:
            await asyncio.wait((everyone, stopping), return_when=asyncio.FIRST_COMPLETED)
            if self._shutdown.started():
                await asyncio.wait(workers, timeout=_GRACE)
        finally:
            tasks: list[asyncio.Task[Any]] = [*workers, renewal, stopping, everyone]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._shutdown.reason is not None:
            raise self._shutdown.reason

    async def _work(self) -> None:
        while not self._shutdown.started():
            request = await self._next()
            if request is None:
                return
            try:
                await self._process(request)
            except ShuttingDown:
                return
            except sqlite3.Error as error:
                self._shutdown.start(self._cache.write_error(error))
                return
            except Exception as error:
                self._shutdown.start(error)
                return

    async def _next(self) -> Request | None:
        """First what no other process has in flight, then what one may have answered by now."""
        if self._queue:
            return self._queue.popleft()
        if not self._claimed_elsewhere:
            return None
        request = self._claimed_elsewhere.popleft()
        await asyncio.sleep(_POLL_CLAIMS)
        return request

    async def _process(self, request: Request) -> None:
        claim = self._cache.claim(request.key)
        if claim == "theirs":
            self._claimed_elsewhere.append(request)
            return
        if claim == "answered":
            reply = self._cache.get(request.key)
            assert reply is not None  # answers are never deleted
            self._gate.used += reply.usage or Usage()
            self._add(request, reply)
            return
        if claim == "abandoned":
            self._sender.add_lost(request, "another process died while it was in flight")
        try:
            reply = await self._send(request)
        except BaseException:
            self._cache.release(request.key)
            raise
        self._add(request, reply)
        self._check_usefulness(reply)

    async def _send(self, request: Request) -> Reply:
        reply = await self._sender.send(request, await self._images.get(request.image))
        self._cache.put(
            request.key, self._model, request.prompt, request.image_sha256, request.run, reply
        )
        return reply

    def _add(self, request: Request, reply: Reply) -> None:
        self.replies[request.key] = reply
        self._on_reply()

    def _check_usefulness(self, reply: Reply) -> None:
        """Do not pay for thousands of answers that say neither Yes nor No."""
        if read_answer(reply).kind in ANSWERED:
            self._useful += 1
        else:
            self._useless += 1
        if self._useful == 0 and self._useless == _MAX_USELESS:
            said = reply.refusal or reply.content or f"nothing, {reply.finish_reason}"
            raise InputError(
                f"the first {_MAX_USELESS} answers say neither Yes nor No (the last: "
                f"{said[:80]!r}); check `prompt` and `model`. They are kept, as unanswered"
            )

    async def _renew_claims(self) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            with contextlib.suppress(sqlite3.OperationalError):  # busy: the next one is in time
                self._cache.renew()


def _read_cache(cache: ResponseCache, requests: list[Request]) -> tuple[dict[str, Reply], Usage]:
    keys = [r.key for r in requests]
    return cache.get_many(keys), cache.lost(keys)


def _total_usage(replies: dict[str, Reply]) -> Usage:
    return sum((reply.usage or Usage() for reply in replies.values()), Usage())


def _total_estimate(requests: list[Request]) -> Usage:
    return sum((r.estimate for r in requests), Usage())


async def _watch_signals(stop: StopFlag, shutdown: Shutdown, cache_path: Path) -> None:
    # A signal handler does not wake a sleeping event loop, so the flag is polled.
    while not stop.is_set():
        await asyncio.sleep(_POLL_SIGNALS)
    shutdown.start(stop.error(cache_path))


def _run(work: Coroutine[Any, Any, Replies]) -> Replies:
    """`asyncio.run`, also where a loop is already running, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
