"""Time from a command to its first training step, with and without compiled programs at hand.

    python benchmarks/startup.py                    # the demo, CLIP-B32 and SigLIP-B16
    python benchmarks/startup.py --only demo
    python benchmarks/startup.py --quick            # tiny models: does it run?

Real processes, from the start of the interpreter to the end of the first step: imports, loading,
scoring and matching everything (8 groups; the demo has its own data), compiling, one step. "Cold"
starts with an empty cache of compiled programs, "warm" finds those of the start before. The other
side is a careful program in PyTorch that does the same with the same weights.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import tyro
from _models import Name, Sizes, weight_writer
from _results import Results
from _sides import Seconds, Side, machine, make_console

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FIRST_STEP = {"TTM_JAX_FAULT_POINT": "steps taken"}  # where our process is ended
GROUPS = 8
MODELS: dict[str, Name] = {"clip_b32": "clip-b32", "siglip_b16": "siglip-b16"}
SUBJECTS = ("demo", *MODELS)


def started(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> Seconds:
    """Run until the process kills itself after its first step."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, **environment}, cwd=folder,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    seconds = Seconds(time.perf_counter() - began)
    if done.returncode != -signal.SIGKILL:
        told = f"ended with {done.returncode} before its first step"
        raise SystemExit(f"{' '.join(words)}: {told}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds.cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds


def prepare(folder: Path, quick: bool) -> Mapping[str, str]:
    """Model folders and data below `folder`; the environment of the commands."""
    from benchmarks.rehearsal.models import make_model

    for model in MODELS:
        make_model(model, folder / model, quick)
    words = ["world", "--variant", "left_right", "--groups", str(GROUPS), "--out", "data"]
    environment = {"PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "ttm_jax.cli.main", *words], cwd=folder, check=True,
        env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return environment


def our_words(subject: str, run: str) -> list[str]:
    command = ["-m", "ttm_jax.cli.main"]
    if subject == "demo":
        return [*command, "demo", "--run-dir", run]
    own = ["--model", subject, "--data", "data", "--out", run]
    one_step = ["--iterations", "1", "--epochs", "1", "--coverage", "1", "--lr", "1e-5"]
    return [*command, "adapt", *own, *one_step]


def ours(
    subject: str, repeats: int, environment: Mapping[str, str], folder: Path
) -> tuple[list[Seconds], list[Seconds]]:
    """Cold and warm starts in turns; every cold one has a cache of its own."""
    cold, warm = [], []
    for turn in range(repeats):
        cache = {"TTM_JAX_COMPILE_CACHE": str(folder / f"cache_{subject}_{turn}")}
        for kind, found in (("cold", cold), ("warm", warm)):
            words = our_words(subject, f"run_{subject}_{turn}_{kind}")
            found.append(started(words, {**environment, **FIRST_STEP, **cache}, folder))
    return cold, warm


def theirs(subject: str, repeats: int, folder: Path, quick: bool) -> list[Seconds]:
    """Starts of the PyTorch program; the data are made in memory."""
    weights = folder / f"torch_{subject}"
    writer = Side("weights", weight_writer, MODELS[subject], quick, str(weights))
    sizes: Sizes = writer.run("write")[1]
    writer.close()
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); import startup; "
        "from _models import Sizes; "
        f"startup.torch_first_step({MODELS[subject]!r}, {str(weights)!r}, {sizes!r})"
    )
    return [started(["-c", code], {}, folder) for _ in range(repeats)]


def torch_first_step(name: Name, folder: str, sizes: Sizes) -> None:
    """Score, match, take one step, and end this process the way ours ends."""
    from ttm import CarefulLoop, Work

    class FirstStep(CarefulLoop):
        done = False

        def scores(self):
            if self.done:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().scores()

        def batches(self, *chosen):
            for batch in super().batches(*chosen):
                yield batch
                self.done = True

    FirstStep(folder, Work(name, sizes, GROUPS, GROUPS, 1, iterations=1, coverage=1.0)).run()


def main(
    only: tuple[str, ...] = SUBJECTS,
    repeats: int = 3,
    quick: bool = False,
    json: Path | None = None,
) -> None:
    """Time starts in turns.

    Args:
        only: demo, clip_b32, siglip_b16.
        repeats: starts of each kind; medians are shown.
        quick: use tiny models and one turn.
        json: file to write the rows to as well.
    """
    if unknown := sorted(set(only) - set(SUBJECTS)):
        raise SystemExit(f"no {unknown[0]}; there are {', '.join(SUBJECTS)}")
    sys.path.insert(0, str(ROOT))
    repeats, results = 1 if quick else repeats, Results("start")
    make_console().print(machine())
    with TemporaryDirectory() as name:
        folder = Path(name)
        environment = prepare(folder, quick)
        for subject in only:
            cold, warm = ours(subject, repeats, environment, folder)
            results.turns(subject, "s to the first step, warm; cold", warm, cold)
            if subject in MODELS:
                other = theirs(subject, repeats, folder, quick)
                results.turns(subject, "s to the first step, warm; PyTorch", warm, other)
                results.turns(subject, "s to the first step, cold; PyTorch", cold, other)
    results.show("Start-up")
    results.save(json)


if __name__ == "__main__":
    tyro.cli(main)
