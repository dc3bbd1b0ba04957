"""All benchmarks against PyTorch in one table: benchmarks/results.md and results.json.

    python benchmarks/run_all.py
    python benchmarks/run_all.py --only scoring ttm

Each benchmark runs in a process of its own and hands its rows over as JSON. What has been measured
is kept if a later one fails, or is not asked for: the table says when and where each was measured.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from _results import about, markdown

HERE = Path(__file__).parent
FLAGS: dict[str, tuple[str, ...]] = {
    "scoring": (),
    "profile_step": ("--parts", "loss", "AdamW", "step"),
    "step_breakdown": (),
    "ttm": (),
    "vqascore": (),
    "startup": (),
    "matching": (),
}


def main(only: tuple[str, ...] = tuple(FLAGS), quick: bool = False, out: Path = HERE) -> None:
    """Run the benchmarks one after the other.

    Args:
        only: which benchmarks; the rows of the others stay in the table.
        quick: use tiny models: do they run?
        out: folder for results.md and results.json.
    """
    if unknown := sorted(set(only) - set(FLAGS)):
        raise SystemExit(f"no benchmark {', '.join(unknown)}; there are {', '.join(FLAGS)}")
    facts, measured = about(), kept(out / "results.json")
    for name in only:
        measured[name] = {"about": facts, "rows": run(name, quick)}
        measured = {name: measured[name] for name in FLAGS if name in measured}
        (out / "results.json").write_text(json.dumps(measured, indent=1) + "\n")
        (out / "results.md").write_text(markdown(measured))


def kept(path: Path) -> dict[str, Any]:
    """What earlier calls have measured: benchmark -> facts and rows."""
    return json.loads(path.read_text()) if path.exists() else {}


def run(name: str, quick: bool) -> list[dict[str, Any]]:
    """The rows of one benchmark; its own output goes to the terminal."""
    print(f"== {name}", flush=True)
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(rows), *FLAGS[name]]
        done = subprocess.run([*command, *["--quick"] * quick])
        if done.returncode != 0:
            raise SystemExit(f"{name} failed with exit code {done.returncode}")
        return json.loads(rows.read_text())


if __name__ == "__main__":
    tyro.cli(main)
