"""One request through the official `openai` client, and what its failure means.

The client's own retries are off; `retry.py` decides about them. Its exceptions carry the request
with its headers, so they are replaced by ours here, `from None`, and the API key is redacted from
every text.
"""

import asyncio
import email.utils
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.plain_text import one_line
from ttm_jax.scorers.api.api_key import ApiKey
from ttm_jax.scorers.api.http_limits import httpx_module, limited_http_client
from ttm_jax.scorers.api.reply import (
    MissingLogprobs,
    Reply,
    UnreadableReply,
    filtered_reply,
    parse_reply,
)
from ttm_jax.scorers.api.request import RequestSettings

_RETRIED_STATUSES = (408, 409, 425, 429)  # and 5xx
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_FILTERS = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_LONGEST_LINE = 300  # characters of a server's text that a message shows
_LONGEST_TEXT = 10_000  # and that are looked at
# httpx errors that occur before the request is sent.
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")


class TransientError(Exception):
    """A failure that a retry may fix: 429, 5xx, a timeout, a broken connection, a broken reply.

    `retry_after` is how many seconds the server asks to wait. `overloaded` means that it has too
    many requests, so all of them should pause. `maybe_billed` means that it may have done the work.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        overloaded: bool = False,
        maybe_billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.overloaded = overloaded
        self.maybe_billed = maybe_billed


class PermanentError(InputError):
    """A failure that no retry fixes: a wrong key, an unknown model, an unsupported request."""

    maybe_billed = False


class NoLogprobsError(PermanentError):
    """The server answers, but without the log-probabilities that the score needs."""

    maybe_billed = True


class ChatClient:
    """Asks one server about one image and one caption at a time."""

    def __init__(self, settings: RequestSettings, key: ApiKey, timeout: float) -> None:
        try:
            import openai
        except ImportError as error:
            raise InputError(
                "models behind an API need the openai package: pip install openai (the extra `api`)"
            ) from error
        settings.check_key_absent(key)
        # At finer levels these log headers, in which a server can repeat anything, even the key.
        for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._openai: Any = openai
        self._settings, self._key, self._timeout = settings, key, timeout
        try:
            self._client: Any = openai.AsyncOpenAI(
                api_key=key.reveal(),
                base_url=settings.address,
                timeout=timeout,
                max_retries=0,
                http_client=limited_http_client(openai, timeout),
            )
        except httpx_module(openai).InvalidURL as error:  # its message may repeat the address
            raise InputError(
                f"`base_url` is not an address that the openai package accepts "
                f"({type(error).__name__})"
            ) from None

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, prompt: str, image_url: str) -> Reply:
        """Send one request. Raises `TransientError` or `PermanentError`."""
        try:
            # The client's timeout is for the silence between bytes; a slow drip would outlast it.
            async with asyncio.timeout(self._timeout):
                raw = await self._client.chat.completions.with_raw_response.create(
                    **self._settings.body(prompt, image_url)
                )
            reply = parse_reply(raw.content, raw.headers.get("content-type"))
        except (TimeoutError, self._openai.APITimeoutError) as error:
            raise TransientError(
                f"no answer within {self._timeout:g} s", maybe_billed=_was_sent(error)
            ) from None
        except self._openai.APIStatusError as error:
            return self._reply_to_status(error)
        except self._openai.APIConnectionError as error:
            if isinstance(error.__cause__, UnreadableReply):  # some versions wrap our own error
                raise self._unusable(error.__cause__) from None
            cause = type(error.__cause__).__name__ if error.__cause__ else "no cause given"
            raise TransientError(
                f"the connection to {self._settings.address} failed ({cause})",
                maybe_billed=_was_sent(error),
            ) from None
        except self._openai.OpenAIError as error:
            raise TransientError(self._clean(f"{type(error).__name__}: {error}")) from None
        except UnreadableReply as error:
            raise self._unusable(error) from None
        except MissingLogprobs:
            raise NoLogprobsError(
                f"{self._settings.address} answers without log-probabilities for "
                f"{self._settings.model}, and the score needs them; choose a model and a server "
                "that return them (GPT-4.1 does, GPT-5 does not; vLLM does)"
            ) from None
        return self._redacted(reply)

    def _reply_to_status(self, error: Any) -> Reply:
        """Raise what an error status means, except that a content filter's 400 is a reply."""
        status, code = error.status_code, _code(error)
        message = self._clean(_message(error))
        if status == 400 and (code in _FILTERS or any(name in message for name in _FILTERS)):
            return filtered_reply(message)
        short = f"{self._settings.address} answers {status}"
        if status < 400:
            where = self._clean(error.response.headers.get("location", "another address"))
            raise PermanentError(
                f"{short}: it redirects to {where}; redirects are not followed, because the API "
                "key would go there: set `base_url` to the server's own address"
            ) from None
        if status == 401:  # its message repeats the key, or part of it
            raise PermanentError(
                f"{short}: it does not accept the API key; check the environment variable"
            ) from None
        if code in _NO_CREDIT:
            raise PermanentError(f"{short}, {code}: the account has no credit left") from None
        if status in _RETRIED_STATUSES or status >= 500:
            raise TransientError(
                f"{short}: {message}",
                retry_after=retry_after_seconds(error.response.headers),
                overloaded=status in (429, 503),
            ) from None
        hints = {
            403: "the key may not use this model",
            404: f"check `base_url` and `model` ({self._settings.model})",
            413: "set `max_image_size`",
        }
        hint = f"; {hints[status]}" if status in hints else ""
        raise PermanentError(f"{short}: {message}{hint}") from None

    def _unusable(self, error: UnreadableReply) -> TransientError:
        return TransientError(f"unusable reply: {self._clean(str(error))}", maybe_billed=True)

    def _clean(self, text: str) -> str:
        """One short line, without the key and without the image that some servers send back.

        Control characters become visible escapes: the text is shown on a terminal.
        """
        text = re.sub(r"base64,[A-Za-z0-9+/=]{40,}", "base64,...", text)
        text = one_line(self._key.redact(" ".join(text[:_LONGEST_TEXT].split())))
        return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + "..."

    def _redacted(self, reply: Reply) -> Reply:
        def redact(text: str | None) -> str | None:
            return None if text is None else self._key.redact(text)

        return replace(
            reply,
            finish_reason=redact(reply.finish_reason),
            content=redact(reply.content),
            refusal=redact(reply.refusal),
            served_model=redact(reply.served_model),
            fingerprint=redact(reply.fingerprint),
            top=reply.top and tuple((self._key.redact(t), logprob) for t, logprob in reply.top),
        )


def retry_after_seconds(
    headers: Mapping[str, str], wall_clock: Callable[[], float] = time.time
) -> float | None:
    """What the server asks for: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                when = email.utils.parsedate_to_datetime(value)
            except (TypeError, ValueError):
                continue
            seconds = when.timestamp() - wall_clock()
        if 0 <= seconds < float("inf"):
            return seconds
        if seconds < 0:
            return 0.0
    return None


def _message(error: Any) -> str:
    """The server's message, without the client's "Error code: ..." in front."""
    said = error.body.get("message") if isinstance(error.body, dict) else None
    return said if isinstance(said, str) else str(error.message)


def _code(error: Any) -> str | None:
    """The error's code if it is a known one; Azure puts the content filter's into `innererror`."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("innererror")
    codes = (error.code, body.get("type"), inner.get("code") if isinstance(inner, dict) else None)
    return next((c for c in codes if c in _FILTERS or c in _NO_CREDIT), None)


def _was_sent(error: BaseException) -> bool:
    return type(error.__cause__).__name__ not in _NOT_SENT
