"""All requests of a plan: several at a time, each once, in order to a stop when there is cause."""

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.answers import ANSWERED, read_answer
from ttm_jax.scorers.api.attempt import Asker
from ttm_jax.scorers.api.cache import LEASE, ResponseCache
from ttm_jax.scorers.api.halt import Halt, Halted
from ttm_jax.scorers.api.images import EncodedImages
from ttm_jax.scorers.api.money import Ledger
from ttm_jax.scorers.api.plan import Job
from ttm_jax.scorers.api.reply import Reply
from ttm_jax.scorers.api.settings import Usage

_GRACE = 10.0  # seconds for the requests under way to finish when the run stops
_LOOK_AGAIN = 0.2  # seconds between looks at what another process has under way
_USELESS = 20  # so many answers without Yes or No and none with: the question is wrong


class Runner:
    """Works through jobs with `concurrency` workers and fills `replies`, by key.

    `on_change` is called after every answer. The first failure stops the run: no new requests,
    those under way may finish and are kept, then the failure is raised.
    """

    def __init__(
        self,
        jobs: list[Job],
        asker: Asker,
        images: EncodedImages,
        cache: ResponseCache,
        ledger: Ledger,
        halt: Halt,
        model: str,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._todo, self._elsewhere = deque(jobs), deque[Job]()
        self._asker, self._images, self._cache = asker, images, cache
        self._ledger, self._halt, self._model = ledger, halt, model
        self._on_change = on_change
        self._useful = self._useless = 0
        self.replies: dict[str, Reply] = {}

    async def run(self, concurrency: int) -> None:
        workers = [asyncio.create_task(self._work()) for _ in range(concurrency)]
        renewal = asyncio.create_task(self._renew_claims())
        stopping = asyncio.create_task(self._halt.wait())
        everyone = asyncio.ensure_future(asyncio.wait(workers))
        try:
            await asyncio.wait((everyone, stopping), return_when=asyncio.FIRST_COMPLETED)
            if self._halt.is_set():
                await asyncio.wait(workers, timeout=_GRACE)
        finally:
            helpers: list[asyncio.Task[Any]] = [*workers, renewal, stopping, everyone]
            for task in helpers:
                task.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        if self._halt.reason is not None:
            raise self._halt.reason

    async def _work(self) -> None:
        while not self._halt.is_set():
            job = await self._next()
            if job is None:
                return
            try:
                await self._do(job)
            except Halted:
                return
            except sqlite3.Error as error:
                self._halt.set(
                    InputError(
                        f"{self._cache.path} cannot be written ({error}); is the disk full? The "
                        "same command goes on with what it holds"
                    )
                )
                return
            except Exception as error:
                self._halt.set(error)
                return

    async def _next(self) -> Job | None:
        """What nobody else has under way first; then what another process may have answered."""
        if self._todo:
            return self._todo.popleft()
        if not self._elsewhere:
            return None
        job = self._elsewhere.popleft()
        await asyncio.sleep(_LOOK_AGAIN)
        return job

    async def _do(self, job: Job) -> None:
        claim = self._cache.claim(job.key)
        if claim == "theirs":
            self._elsewhere.append(job)
            return
        if claim == "answered":
            reply = self._cache.get(job.key)
            assert reply is not None  # answers are never deleted
            self._ledger.used += reply.usage or Usage()
            self._keep(job, reply)
            return
        if claim == "left":
            self._asker.lose(job, "another process ended while it was under way")
        try:
            reply = await self._ask(job)
        except BaseException:
            self._cache.release(job.key)
            raise
        self._keep(job, reply)
        self._check_use(reply)

    async def _ask(self, job: Job) -> Reply:
        reply = await self._asker.ask(job, await self._images.get(job.image))
        self._cache.put(job.key, self._model, job.prompt, job.image_sha256, job.run, reply)
        return reply

    def _keep(self, job: Job, reply: Reply) -> None:
        self.replies[job.key] = reply
        self._on_change()

    def _check_use(self, reply: Reply) -> None:
        """Do not pay for thousands of answers that say neither Yes nor No."""
        if read_answer(reply).kind in ANSWERED:
            self._useful += 1
        else:
            self._useless += 1
        if self._useful == 0 and self._useless == _USELESS:
            said = reply.refusal or reply.content or f"nothing, {reply.finish_reason}"
            raise InputError(
                f"the first {_USELESS} answers say neither Yes nor No (the last: {said[:80]!r}); "
                "check --prompt and --model. They are kept and count as unanswered"
            )

    async def _renew_claims(self) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            with contextlib.suppress(sqlite3.OperationalError):  # busy: the next one is in time
                self._cache.renew()
