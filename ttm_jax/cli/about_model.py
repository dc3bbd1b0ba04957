"""What a model was made for, said once when a command loads it."""

import sys

from ttm_jax.inputs.model_advice import Advice


def say_about(source: str, advice: Advice) -> None:
    """One line on stderr about a model that carries such advice; nothing about others."""
    if advice.about:
        about = advice.about[0].lower() + advice.about[1:]
        print(f"{source}: {about}", file=sys.stderr, flush=True)
