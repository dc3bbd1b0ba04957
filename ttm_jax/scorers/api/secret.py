"""The key: from the environment, into the client, and nowhere else."""

import os
import re

from ttm_jax.errors import InputError

HIDDEN = "[key]"
_SHORTEST = 8  # what is shorter is a placeholder such as vLLM's "EMPTY", and no part gives it away


class Secret:
    """A key that does not show itself: not in a repr, not in a text that `hide` has seen."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "Secret()"

    def reveal(self) -> str:
        """The key itself, for the client only."""
        return self._value

    def hide(self, text: str) -> str:
        """The text with every run of 8 or more characters of the key replaced.

        Servers repeat a wrong key in their message, some with a part of it starred out.
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
                kept.append(HIDDEN)
                start = end + _SHORTEST - 1
            else:
                kept.append(text[start])
                start += 1
        return "".join(kept)


def from_environment(name: str) -> Secret:
    """The key in the variable `name`; the messages never show what was given in its place."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InputError(
            "--key-env takes the NAME of an environment variable, such as OPENAI_API_KEY, not a key"
        )
    shown = name if re.fullmatch(r"[A-Z][A-Z0-9_]{0,39}", name) else "that --key-env names"
    value = os.environ.get(name, "").strip()
    if not value:
        raise InputError(
            f"the environment variable {shown} is not set; put your key there (for a server that "
            "wants none, any word)"
        )
    # The HTTP library repeats a header that it cannot send, key and all, in its error.
    if not re.fullmatch(r"[\x21-\x7e]+", value):
        raise InputError(
            f"the environment variable {shown} holds spaces, line breaks or letters that no key "
            "has; set it again"
        )
    return Secret(value)
