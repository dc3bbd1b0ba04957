"""The API key: read from the environment, passed to the client, and shown nowhere."""

import os
import re

from ttm_jax.errors import InputError

REDACTED = "[key]"
# Shorter values are placeholders, such as vLLM's "EMPTY"; nothing needs to be hidden.
_SHORTEST = 8
# The beginnings of many providers' keys, and of JSON web tokens, before a long random part.
_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?:[spr]k[-_]|gsk_|hf_|xai-|AIza|gh[opsu]_|github_pat_|nvapi-|r8_|pplx-|eyJ)"
    r"[A-Za-z0-9_-]*?(?=[A-Za-z]*\d)[A-Za-z0-9]{12,}"
)
# Long, with lower and upper case and at least three digits: words rarely look like this.
_RANDOM = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=(?:[A-Za-z]*\d){3})[A-Za-z0-9]{24,}"
)
_HEX = re.compile(r"(?<![A-Za-z0-9])[0-9a-fA-F]{32}(?![A-Za-z0-9])")


class ApiKey:
    """A key that does not appear in its own repr, nor in any text passed through `redact`."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "ApiKey()"

    def reveal(self) -> str:
        """The key itself. Only the client needs it."""
        return self._value

    def redact(self, text: str) -> str:
        """Replace every run of 8 or more characters of the key.

        Servers quote a wrong key in their error messages, some with the middle starred out.
        """
        key = self._value
        if len(key) < _SHORTEST:
            return text
        pieces = {key[i : i + _SHORTEST] for i in range(len(key) - _SHORTEST + 1)}
        kept, start = [], 0
        while start < len(text):
            end = start
            while text[end : end + _SHORTEST] in pieces:
                end += 1
            if end > start:
                kept.append(REDACTED)
                start = end + _SHORTEST - 1
            else:
                kept.append(text[start])
                start += 1
        return "".join(kept)


def looks_like_key(text: str, *, hex_too: bool) -> bool:
    """Whether a text contains something that is probably an API key.

    `hex_too`: 32 hexadecimal digits count as a key. Some are (Azure), but in the addresses of other
    providers they are account numbers.
    """
    found = _PREFIXED.search(text) or _RANDOM.search(text)
    return bool(found or (hex_too and _HEX.search(text)))


def read_api_key(variable: str) -> ApiKey:
    """Read the key from an environment variable.

    Error messages never repeat `variable` unless it looks like a variable's name: it may be a key
    that was given in the wrong place.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise InputError(
            "expected the NAME of an environment variable that holds the API key, such as "
            "OPENAI_API_KEY, not the key itself"
        )
    looks_like_name = re.fullmatch(r"[A-Z][A-Z0-9_]{0,39}", variable)
    shown = variable if looks_like_name else "given for the API key"
    value = os.environ.get(variable, "").strip()
    if not value:
        raise InputError(
            f"the environment variable {shown} is not set; set it to your API key (to any word, if "
            "the server needs no key)"
        )
    # An HTTP library that refuses a header quotes it, key and all, in its error.
    if not re.fullmatch(r"[\x21-\x7e]+", value):
        raise InputError(
            f"the environment variable {shown} contains spaces, line breaks or non-ASCII letters, "
            "which no API key has; set it again"
        )
    return ApiKey(value)
