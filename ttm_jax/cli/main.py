"""`ttm`: one command for everything but the paper's experiments, which are run from a clone.

`COMMANDS` is the list of subcommands; each is a module of this package with a function
`main(argv)`. Only the one that is asked for is imported, so `ttm --help` is instant.
"""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module, metadata

from ttm_jax.cli.exit_codes import run
from ttm_jax.errors import InputError

COMMANDS = {
    "demo": "adapt a small model to two small benchmarks; nothing to download",
    "diagnose": "estimate, without labels, what a model knows about your data",
    "adapt": "adapt a model to your own images and captions, without labels",
    "match": "match images to captions with any checkpoint, without training",
    "score": "score images against captions with any checkpoint",
    "evaluate": "evaluate a file of scores from any model: every metric beside chance",
    "report": "write one HTML page about runs",
    "figures": "draw the paper's figures from run folders",
    "compare": "compare two runs, with a paired test",
    "inspect": "look into a checkpoint, or at the difference between two",
    "export": "export the model of a run for transformers or big_vision",
    "data": "download the paper's benchmarks, or check those on disk",
    "world": "write a benchmark of the procedural world as a folder of images",
}
_ASKS_FOR_HELP = ("-h", "--help", "help")


def overview() -> str:
    """What `ttm` alone prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, about in COMMANDS.items()]
    return "\n".join(
        [
            "usage: ttm COMMAND [OPTIONS]",
            "",
            "Test-Time Matching: improve an image-text model on its test set, without labels.",
            "",
            *lines,
            "",
            "ttm COMMAND --help explains a command; ttm --version prints the version.",
            "The paper's experiments are run from a clone: python -m experiments",
        ]
    )


def dispatch(argv: Sequence[str]) -> int | None:
    """Run the subcommand that `argv` names."""
    if not argv or argv[0] in _ASKS_FOR_HELP:
        print(overview())
        return 0
    name, *rest = argv
    if name == "--version":
        print(f"ttm_jax {metadata.version('ttm_jax')}")
        return 0
    if name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(COMMANDS)}"
        raise InputError(f"ttm has no command {name!r}; {hint}")
    return import_module(f"ttm_jax.cli.{name}").main(rest)


def main() -> None:
    """The console script."""
    run(lambda: dispatch(sys.argv[1:]))


if __name__ == "__main__":
    main()
