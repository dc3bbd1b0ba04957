"""All benchmarks against PyTorch in one table: benchmarks/results.md and results.json.

    python benchmarks/run_all.py
    python benchmarks/run_all.py --only scoring ttm

Each benchmark runs in a process of its own and hands its rows over as JSON. What has been measured
is kept if a later one fails.
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
COMPARED = ("scoring", "ttm", "vqascore")
ALONE = ("matching",)  # without rows of the common form: they print their own tables


def main(
    only: tuple[str, ...] = (*COMPARED, *ALONE), quick: bool = False, out: Path = HERE
) -> None:
    """Run the benchmarks one after the other.

    Args:
        only: which benchmarks.
        quick: use tiny models: do they run?
        out: folder for results.md and results.json.
    """
    unknown = sorted(set(only) - {*COMPARED, *ALONE})
    if unknown:
        raise SystemExit(f"no benchmark {', '.join(unknown)}; there are {', '.join(COMPARED)}")
    facts, rows = about(), []
    for name in only:
        rows += run(name, quick)
        document: dict[str, Any] = {"about": facts, "rows": rows}
        (out / "results.json").write_text(json.dumps(document, indent=1) + "\n")
        (out / "results.md").write_text(markdown(rows, facts))


def run(name: str, quick: bool) -> list[dict[str, Any]]:
    """The rows of one benchmark; its own output goes to the terminal."""
    print(f"== {name}", flush=True)
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / f"{name}.py")]
        if name in COMPARED:
            command += ["--json", str(rows)] + ["--quick"] * quick
        done = subprocess.run(command)
        if done.returncode != 0:
            raise SystemExit(f"{name} failed with exit code {done.returncode}")
        return json.loads(rows.read_text()) if rows.exists() else []


if __name__ == "__main__":
    tyro.cli(main)
