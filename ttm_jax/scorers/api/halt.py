"""Stopping in order: no new request, waits end at once, what is under way is let finish."""

import asyncio


class Halted(Exception):
    """The run is stopping; this request was not sent."""


class Halt:
    """Set once, with the reason; every sleep of the run ends when it is set."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason: Exception | None = None

    def set(self, reason: Exception) -> None:
        """The first reason counts."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        await self._event.wait()

    async def sleep(self, seconds: float) -> None:
        """Sleep, or raise `Halted` as soon as the run is stopping."""
        if seconds > 0 and not self._event.is_set():
            try:
                await asyncio.wait_for(self._event.wait(), seconds)
            except TimeoutError:
                return
        if self._event.is_set():
            raise Halted
