"""The part of a model that is trained, as people write it: "all", "text", "lora:text:last:2".

    [lora:][image:|text:][heads | last:N]

`image` and `text` restrict it to one tower, `heads` to what pools and projects the output of the
blocks, `last:N` to that and the last N blocks. `lora` trains low-rank adapters of those blocks
instead of the parameters themselves. The scale and the bias of the logits are always trained along.
"""

from dataclasses import dataclass
from typing import Literal

from ttm_jax.errors import InputError

Side = Literal["image", "text"]
EXAMPLES = "all, image, text, heads, last:2, text:last:2, lora, lora:last:2"


@dataclass(frozen=True)
class TrainedPart:
    """What is trained of each tower: everything, or the heads and `last` blocks."""

    lora: bool = False
    sides: tuple[Side, ...] = ("image", "text")
    last: int | None = None
    """How many blocks; 0 is the heads alone, None is the whole tower."""


EVERYTHING = TrainedPart()


def parse_train(text: str) -> TrainedPart:
    """Read what `TTMConfig.train` says."""
    words = text.split(":")
    if words == ["all"]:
        return EVERYTHING
    rest = list(words)
    lora = rest[:1] == ["lora"]
    rest = rest[lora:]
    sides: tuple[Side, ...] = ("image", "text")
    if rest and rest[0] in ("image", "text"):
        sides = ("image",) if rest[0] == "image" else ("text",)
        rest = rest[1:]
    if not rest:
        return TrainedPart(lora, sides)
    if rest == ["heads"] and not lora:
        return TrainedPart(lora, sides, 0)
    if len(rest) == 2 and rest[0] == "last" and rest[1].isdecimal() and 0 < int(rest[1]) < 10_000:
        return TrainedPart(lora, sides, int(rest[1]))
    raise InputError(
        f"train is {text!r}; expected [lora:][image:|text:][heads|last:N], for example {EXAMPLES}"
    )
