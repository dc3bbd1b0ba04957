"""What a training step spends its time on, operation by operation, in XLA and in PyTorch.

    python benchmarks/step_breakdown.py --models clip-b32      # one traced step of 8 pairs each
    python benchmarks/step_breakdown.py --quick                # tiny models: does it run?

The step is that of profile_step.py: loss, gradient and AdamW. Both sides are traced by their own
profiler after two steps without one. The time of an operation is put under the kind of work that
it does: matrix products; normalisation, activations and everything else done value by value; moving
data (copies, transposes, slices, gathers). A fusion of XLA is one operation; it counts as a product
if it contains one. The seconds of a kind are sums over operations, so what no operation accounts
for (waiting, dispatch) is the difference to the wall time.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from _models import NAMES, Name, torch_model, weight_writer
from _results import Results
from _sides import Parts, Side, machine, make_console
from profile_step import JaxStep, torch_step_parts

PRODUCTS, VALUES, MOVES, UPDATE = (
    "matrix products", "value by value", "moving data", "AdamW",
)  # fmt: skip
KINDS = (PRODUCTS, VALUES, MOVES, UPDATE)
WARM_UP = 2
# Opcodes of XLA and operators of PyTorch. What is in neither list works value by value.
XLA_PRODUCTS = ("dot", "convolution", "custom-call")
XLA_MOVES = (
    "copy", "transpose", "slice", "dynamic-slice", "dynamic-update-slice", "concatenate", "pad",
    "gather", "scatter", "bitcast", "reshape", "broadcast", "reverse", "parameter", "constant",
    "tuple", "get-tuple-element", "iota", "convert",
)  # fmt: skip
XLA_CONTAINERS = ("while", "conditional", "call")
TORCH_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "attention", "convolution", "linear", "conv")
TORCH_MOVES = (
    "copy_", "clone", "contiguous", "cat", "index", "embedding", "slice", "select", "fill_",
    "zero_", "transpose", "permute", "gather", "scatter", "empty",
)  # fmt: skip


def xla_kinds(text: str) -> dict[str, str]:
    """The kind of work of each instruction in a compiled program; containers are left out."""
    inside: dict[str, set[str]] = {}
    calls: dict[str, tuple[str, str, str]] = {}
    computation = ""
    for line in text.splitlines():
        if begins := re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line):
            computation = begins[1]
        found = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\(", line)
        if found:
            name, opcode = found.groups()
            inside.setdefault(computation, set()).add(opcode)
            called = re.search(r"calls=%?([\w.\-]+)", line)
            calls[name] = opcode, called[1] if called else "", line
    kinds = {}
    for name, (opcode, called, line) in calls.items():
        if opcode in XLA_CONTAINERS:
            continue
        work = inside.get(called, {opcode}) if opcode == "fusion" else {opcode}
        if "adam" in line.lower():
            kinds[name] = UPDATE
        elif work & set(XLA_PRODUCTS):
            kinds[name] = PRODUCTS
        else:
            kinds[name] = MOVES if work <= set(XLA_MOVES) else VALUES
    return kinds


def torch_kind(name: str) -> str:
    name = name.removeprefix("aten::").strip("_")
    if "adam" in name.lower():
        return UPDATE
    if any(part in name for part in TORCH_PRODUCTS):
        return PRODUCTS
    return MOVES if any(part.strip("_") in name for part in TORCH_MOVES) else VALUES


def jax_parts(folder: str, batch: int) -> Parts:
    import jax
    import jax.numpy as jnp
    from jax.profiler import ProfileData

    import ttm_jax

    whole = JaxStep.of(ttm_jax.load_model(folder), batch)
    program, state = whole.compiled(), [whole.state]
    kinds = xla_kinds(program.as_text())

    def step() -> None:
        state[0] = jax.block_until_ready(program(state[0], jnp.float32(1e-5)))

    def events(path: Path) -> Iterator[tuple[str, float]]:
        data = ProfileData.from_file(str(path))
        for event in (e for plane in data.planes for line in plane.lines for e in line.events):
            stats = dict(event.stats)
            if "hlo_op" in stats and not event.name.startswith("end: "):
                yield str(stats["hlo_op"]), event.duration_ns / 1e9

    def traced() -> dict[str, float]:
        with TemporaryDirectory() as kept:
            with jax.profiler.trace(kept):
                wall = timed(step)
            (path,) = Path(kept).rglob("*.xplane.pb")
            spent = [(kinds.get(name), seconds) for name, seconds in events(path)]
        memory = program.memory_analysis().temp_size_in_bytes / 2**30
        return {**added(spent), "wall": wall, "memory": memory}

    return {"step": traced, "warm up": step}


def torch_parts(folder: str, batch: int) -> Parts:
    from torch.profiler import ProfilerActivity, profile

    step = torch_step_parts(torch_model(folder), batch)["step"]

    def traced() -> dict[str, float]:
        with profile(activities=[ProfilerActivity.CPU]) as found:
            wall = timed(step)
        # The optimizer's range contains its operators, whose own time is then counted there.
        table = found.key_averages()
        spent = [(torch_kind(event.key), event.self_cpu_time_total / 1e6) for event in table]
        return {**added(spent), "wall": wall}

    return {"step": traced, "warm up": step}


def timed(step: Callable[[], Any]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def added(spent: list[tuple[str | None, float]]) -> dict[str, float]:
    """Seconds of each kind; what has none (containers) is left out."""
    total: Counter[str] = Counter()
    for kind, seconds in spent:
        if kind is not None:
            total[kind] += seconds
    return dict(total)


def measure(name: Name, batch: int, tiny: bool, results: Results) -> None:
    with TemporaryDirectory() as folder:
        writer = Side("weights", weight_writer, name, tiny, folder)
        writer.run("write")
        writer.close()
        sides = [
            Side("ttm_jax", jax_parts, folder, batch, huge_pages=True),
            Side("PyTorch", torch_parts, folder, batch),
        ]
        for side in sides:
            for _ in range(WARM_UP):
                side.run("warm up")
        ours, theirs = (side.run("step")[1] for side in sides)
        for side in sides:
            side.close()
    label = f"{name}{' (tiny)' if tiny else ''}, {batch} pairs"
    for kind in (*KINDS, "wall"):
        results.values(label, f"{kind}: s", ours.get(kind, 0.0), theirs.get(kind, 0.0))
    # Gradients and what is kept for the backward pass; PyTorch does not tell its own.
    results.values(label, "temporary memory, GB", ours["memory"])


def main(
    models: tuple[Name, ...] = NAMES,
    batch: int = 8,
    quick: bool = False,
    json: Path | None = None,
) -> None:
    """Trace one training step of each side.

    Args:
        models: siglip-b16, clip-b32, with random weights.
        batch: number of pairs.
        quick: use tiny models, to check that the benchmark runs.
        json: file to write the rows to as well.
    """
    results = Results("breakdown of a training step")
    make_console().print(machine())
    for name in models:
        measure(name, batch, quick, results)
    results.show("What a training step spends its time on")
    results.save(json)


if __name__ == "__main__":
    tyro.cli(main)
