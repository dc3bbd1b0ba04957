"""What a model was made for, said once when a command loads it."""

import sys

from ttm_jax.inputs.model_advice import Advice
from ttm_jax.plain_text import for_reading


def say_about(source: str, advice: Advice) -> None:
    """One line on stderr about a model that carries such advice; nothing about others."""
    if advice.about:
        about = advice.about[0].lower() + advice.about[1:]
        text = for_reading(f"{source}: {about}", sys.stderr.isatty())
        print(text, file=sys.stderr, flush=True)
