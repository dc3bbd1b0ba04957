"""Rehearse the experiments at full size without a network: `make rehearse`.

    python -m benchmarks.rehearsal
    python -m benchmarks.rehearsal --only clip_b32 data --keep /tmp/rehearsal

A server on the loopback serves the paper's models with random weights and its benchmarks with
random pictures, in the published layouts. From an empty cache, every experiment is run as a user
runs it, killed in its second iteration, resumed by the same command, reported on, inspected and
exported. Needs 30 GB of disk for all models; the time depends on the machine (docs/rehearsal.md).
"""

import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from benchmarks.rehearsal import table
from benchmarks.rehearsal.plan import DATA, REHEARSED
from benchmarks.rehearsal.stage import Stage
from benchmarks.rehearsal.support import ROOT
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.errors import InputError

sys.path.insert(0, str(ROOT / "benchmarks"))

from _sides import machine


@dataclass(frozen=True)
class Args:
    only: tuple[str, ...] = (*REHEARSED, DATA)
    """Models, and `data` for the download of all sixteen variants."""
    keep: Annotated[Path | None, option("DIR", "a temporary folder, removed at the end")] = None
    """Work in this new folder and keep it."""
    out: Path = Path("runs/rehearsal")
    """Where rehearsal.md and rehearsal.json go."""
    quick: Switch = False
    """Tiny models and pictures, to check the rehearsal itself."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m benchmarks.rehearsal", __doc__)
    if unknown := [name for name in args.only if name not in (*REHEARSED, DATA)]:
        raise InputError(f"--only {unknown[0]}: expected some of {', '.join((*REHEARSED, DATA))}")
    if args.keep is not None and args.keep.exists() and any(args.keep.iterdir()):
        raise InputError(f"--keep {args.keep} is not empty; the rehearsal needs a new folder")
    args.out.mkdir(parents=True, exist_ok=True)
    where = f"{machine()}, jax {version('jax')}"
    rows: list[table.Row] = []
    with ExitStack() as stack:
        if args.keep is None:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rehearsal_")))
        else:
            work = args.keep.absolute()
        for name in args.only:
            stage = Stage(name, work / name, args.quick)
            rows += stage.rehearse()
            table.write(rows, where, args.out)  # after each, in case a later one fails
            if args.keep is None:
                shutil.rmtree(work / name)
    print(table.markdown(rows, where))
    print(f"written to {args.out}/rehearsal.md and rehearsal.json")


if __name__ == "__main__":
    run(main)
