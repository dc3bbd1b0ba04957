"""One request through the official `openai` client, and what its failure means.

The client's own retries are off: `attempt.py` decides. Its exceptions hold the request with its
headers, so they are turned into ours here, `from None`, with the key taken out of every text.
"""

import asyncio
import logging
import re
from dataclasses import replace
from typing import Any

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.pace import retry_after_seconds
from ttm_jax.scorers.api.reply import (
    MissingLogprobs,
    Reply,
    UnreadableReply,
    filtered,
    read_reply,
)
from ttm_jax.scorers.api.secret import Secret
from ttm_jax.scorers.api.settings import Question

_WORTH_A_RETRY = (408, 409, 425, 429)  # and 5xx
_NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_FILTERS = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")


class Transient(Exception):
    """A failure that may pass: 429, 5xx, a time-out, a broken connection, half a reply."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        crowded: bool = False,
        maybe_billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.crowded = crowded  # the server has too many requests: all should pause
        self.maybe_billed = maybe_billed  # the server may have done the work


class Permanent(InputError):
    """A failure that no retry mends: a wrong key, an unknown model, a request it does not take."""

    maybe_billed = False


class NoLogprobs(Permanent):
    """The server answers, but not in a form that has a score."""

    maybe_billed = True


class ChatClient:
    """Asks one server about one image and one caption at a time."""

    def __init__(self, question: Question, secret: Secret, timeout: float) -> None:
        try:
            import openai
        except ImportError as error:
            raise InputError(
                "models behind an API need the openai package; pip install 'ttm_jax[api]'"
            ) from error
        if secret.hide(question.base_url + question.model) != question.base_url + question.model:
            raise InputError(
                "the key stands in --base-url or --model; it comes from the environment"
            )
        # Their finer logs show headers, into which a server can put anything, the key too.
        for name in ("openai", "httpx", "httpx2", "httpcore", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._openai: Any = openai
        self._question, self._secret, self._timeout = question, secret, timeout
        self._client: Any = openai.AsyncOpenAI(
            api_key=secret.reveal(),
            base_url=question.address,
            timeout=timeout,
            max_retries=0,
        )

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, prompt: str, image_url: str) -> Reply:
        """The reply; raises `Transient` or `Permanent`."""
        try:
            # The client's time-out is for silence between bytes; a slow drip would outlast it.
            async with asyncio.timeout(self._timeout):
                raw = await self._client.chat.completions.with_raw_response.create(
                    **request_body(self._question, prompt, image_url)
                )
            reply = read_reply(raw.text)
        except (TimeoutError, self._openai.APITimeoutError) as error:
            raise Transient(
                f"no answer within {self._timeout:g} s", maybe_billed=_was_sent(error)
            ) from None
        except self._openai.APIStatusError as error:
            return self._by_status(error)
        except self._openai.APIConnectionError as error:
            cause = type(error.__cause__).__name__ if error.__cause__ else "no cause given"
            raise Transient(
                f"the connection to {self._question.address} failed ({cause})",
                maybe_billed=_was_sent(error),
            ) from None
        except self._openai.OpenAIError as error:
            raise Transient(self._clean(f"{type(error).__name__}: {error}")) from None
        except UnreadableReply as error:
            raise Transient(f"the reply has {self._clean(str(error))}", maybe_billed=True) from None
        except MissingLogprobs:
            raise NoLogprobs(
                f"{self._question.address} answers without log-probabilities for "
                f"{self._question.model}, and the score is made of them; choose a model and a "
                "server that give them (GPT-4.1 does, GPT-5 does not; vLLM does)"
            ) from None
        return self._without_key(reply)

    def _by_status(self, error: Any) -> Reply:
        status, code = error.status_code, _code(error)
        message = self._clean(_message(error))
        if status == 400 and (code in _FILTERS or any(name in message for name in _FILTERS)):
            return filtered(message)
        short = f"{self._question.address} answers {status}"
        if status == 401:  # its message repeats the key, or a part of it
            raise Permanent(f"{short}: it does not accept the key; check the variable") from None
        if code in _NO_MONEY:
            raise Permanent(f"{short}, {code}: the account has no money left") from None
        if status in _WORTH_A_RETRY or status >= 500:
            raise Transient(
                f"{short}: {message}",
                retry_after=retry_after_seconds(error.response.headers),
                crowded=status in (429, 503),
            ) from None
        hints = {
            403: "the key may not use this model",
            404: f"check --base-url and --model ({self._question.model})",
            413: "give --max-image-size",
        }
        hint = f"; {hints[status]}" if status in hints else ""
        raise Permanent(f"{short}: {message}{hint}") from None

    def _clean(self, text: str) -> str:
        """One short line without the key and without the image that some servers send back."""
        text = self._secret.hide(" ".join(text.split()))
        text = re.sub(r"base64,[A-Za-z0-9+/=]{40,}", "base64,...", text)
        return text if len(text) <= 300 else text[:297] + "..."

    def _without_key(self, reply: Reply) -> Reply:
        def hide(text: str | None) -> str | None:
            return None if text is None else self._secret.hide(text)

        return replace(
            reply,
            finish_reason=hide(reply.finish_reason),
            content=hide(reply.content),
            refusal=hide(reply.refusal),
            served_model=hide(reply.served_model),
            fingerprint=hide(reply.fingerprint),
            top=reply.top and tuple((self._secret.hide(t), logprob) for t, logprob in reply.top),
        )


def request_body(question: Question, prompt: str, image_url: str) -> dict[str, Any]:
    """The chat completion: one image, one question, one token of answer, no randomness."""
    image = {"type": "image_url", "image_url": {"url": image_url, "detail": question.detail}}
    text = {"type": "text", "text": prompt}
    return {
        "model": question.model,
        "messages": [
            {"role": "user", "content": [image, text] if question.image_first else [text, image]}
        ],
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": question.top_logprobs,
        question.token_limit: 1,
    }


def _message(error: Any) -> str:
    """The server's words, without the client's "Error code: ..." before them."""
    said = error.body.get("message") if isinstance(error.body, dict) else None
    return said if isinstance(said, str) else str(error.message)


def _code(error: Any) -> str | None:
    """The error's code; Azure puts the filter's into `innererror`."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("innererror")
    codes = (error.code, body.get("type"), inner.get("code") if isinstance(inner, dict) else None)
    known = [c for c in codes if c in _FILTERS or c in _NO_MONEY]
    return known[0] if known else error.code


def _was_sent(error: BaseException) -> bool:
    return type(error.__cause__).__name__ not in _NOT_SENT
