"""An HTTP client that a server cannot overwhelm or lead astray.

At most `MAX_BYTES` of a reply are kept, counted after decompression: a gzip bomb of 200 kB can
unpack to hundreds of megabytes. Redirects are not followed, so the API key and the images go to the
configured server only.
"""

import importlib
import zlib
from collections.abc import AsyncIterator
from typing import Any

from ttm_jax.scorers.api.reply import UnreadableReply

MAX_BYTES = 2**20  # a chat completion with 20 tokens takes about 5 kB
_PIECE = 2**16  # bytes that are decompressed at a time


def httpx_module(openai: Any) -> Any:
    """What the `openai` package is built on: httpx or, in newer versions, httpx2."""
    classes = openai.DefaultAsyncHttpxClient.__mro__
    names = [c.__module__.partition(".")[0] for c in classes]
    return importlib.import_module(next(name for name in names if name.startswith("httpx")))


def limited_http_client(openai: Any, timeout: float) -> Any:
    """The client that the `openai` package makes by default, with these limits.

    A hook on every response replaces its body by a limited one. A custom transport would do too,
    but httpx then ignores the proxy settings of the environment.
    """
    httpx = httpx_module(openai)

    class LimitedStream(httpx.AsyncByteStream):
        def __init__(self, stream: Any, encodings: list[str], truncate: bool) -> None:
            self._stream, self._encodings, self._truncate = stream, encodings, truncate

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in _limited(_decompressed(self._stream, self._encodings)):
                    yield piece
            except UnreadableReply:
                # The body of an error is only quoted; its status still says what happened.
                if not self._truncate:
                    raise

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def limit(response: Any) -> None:
        values = response.headers.get("content-encoding", "").lower().split(",")
        encodings = [value.strip() for value in values if value.strip() not in ("", "identity")]
        response.headers.pop("content-encoding", None)  # decompressed here, not by httpx
        response.encoding = "utf-8"  # JSON is; a server could name a codec that does not make text
        is_error = response.status_code >= 300
        response.stream = LimitedStream(response.stream, encodings, truncate=is_error)

    return openai.DefaultAsyncHttpxClient(
        timeout=timeout,
        follow_redirects=False,
        headers={"accept-encoding": "identity"},  # replies are small
        event_hooks={"request": [], "response": [limit]},
    )


async def _limited(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > MAX_BYTES:
            yield piece[: len(piece) - (total - MAX_BYTES)]
            raise UnreadableReply(f"larger than {MAX_BYTES // 2**20} MB")
        yield piece


async def _decompressed(stream: Any, encodings: list[str]) -> AsyncIterator[bytes]:
    """The body in pieces, decompressed no faster than they are asked for."""
    if not encodings:
        async for data in stream:
            yield data
        return
    if encodings not in (["gzip"], ["x-gzip"], ["deflate"]):
        raise UnreadableReply("compressed in a way that was not asked for")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # detects gzip and zlib
    received = 0
    async for data in stream:
        received += len(data)
        if received > MAX_BYTES:  # also what unpacks to nothing must end
            raise UnreadableReply(f"larger than {MAX_BYTES // 2**20} MB")
        try:
            while piece := unpacker.decompress(data, _PIECE):
                yield piece
                data = unpacker.unconsumed_tail
        except zlib.error:
            raise UnreadableReply("compressed data that cannot be unpacked") from None
