"""How many tokens a request will take: an estimate, for plans and budgets.

What a provider counts for an image depends on the model and is not always what it documents. The
rules below are OpenAI's (guide "Images and vision", calculating costs); a user's measurement of
GPT-4.1 (community.openai.com, topic 1262691: 97 tokens at low and 267 at high detail for 128 x 64
pixels and five words) agrees. For other servers give the number by hand.
"""

import math

from ttm_jax.scorers.api.settings import Detail

_MESSAGE = 10  # roles and separators around the words
_LETTERS_A_TOKEN = 3.5  # English runs at about 4.5; a little high is the safe side
# model name begins -> (tokens for the whole image, tokens for each 512-pixel tile)
_TILES = {
    "gpt-4o-mini": (2833, 5667),
    "gpt-4": (85, 170),  # gpt-4-turbo, gpt-4o, gpt-4.1, gpt-4.5
    "": (85, 170),
}
# model name begins -> tokens for each patch of 32 x 32 pixels, of which there are at most 1536
_PATCHES = {"gpt-4.1-mini": 1.62, "gpt-4.1-nano": 2.46, "o4-mini": 1.72}
_MOST_PATCHES = 1536


def text_tokens(text: str) -> int:
    return _MESSAGE + math.ceil(len(text.encode()) / _LETTERS_A_TOKEN)


def image_tokens(width: int, height: int, model: str, detail: Detail) -> int:
    """`auto` is counted as `high`: the server may choose it."""
    patch = _by_prefix(_PATCHES, model)
    if patch is not None:
        return math.ceil(patch * _patches(width, height))
    whole, tile = _by_prefix(_TILES, model)
    return whole if detail == "low" else whole + tile * _tiles(width, height)


def _tiles(width: int, height: int) -> int:
    """Shrunk into 2048 x 2048, then to a shorter side of 768; never enlarged."""
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / (min(width, height) * scale))
    return math.ceil(round(width * scale) / 512) * math.ceil(round(height * scale) / 512)


def _patches(width: int, height: int) -> int:
    return min(math.ceil(width / 32) * math.ceil(height / 32), _MOST_PATCHES)


def _by_prefix(table: dict, model: str):
    fitting = [prefix for prefix in table if model.startswith(prefix)]
    return table[max(fitting, key=len)] if fitting else None
