"""The rehearsal of one model, or of the data: serve, run the commands, measure."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.rehearsal import data, models, processes, table
from benchmarks.rehearsal.plan import DATA, DATA_COMMANDS, REHEARSED, Rehearsed
from benchmarks.rehearsal.server import Site, serving
from benchmarks.rehearsal.support import ROOT
from ttm_jax.data.download import sources

AFTER_CHECKPOINT = 8.0  # seconds from the first checkpoint to the kill: amid the second iteration
SOURCES = ("winoground", "mmvp_vlm", "colorswap", "sugarcrepe", "whatsup")


class Stage:
    """One model, or the data: an origin that is served, and an empty home for the commands."""

    def __init__(self, name: str, folder: Path, quick: bool) -> None:
        self.name, self.folder, self.quick = name, folder, quick
        self.home, self.origin = folder / "home", folder / "origin"
        self.log = folder / "log.txt"
        self.rows: list[table.Row] = []

    def rehearse(self) -> list[table.Row]:
        self.home.mkdir(parents=True)
        with serving(self.make()) as site:
            env = self.environment(site)
            if self.name == DATA:
                for words in DATA_COMMANDS:
                    self.run(words, env, "data")
            else:
                self.rehearse_model(REHEARSED[self.name], env)
        return self.rows

    def make(self) -> Site:
        """Write what is served, in another process: this one must stay small (see `run`)."""
        wanted = SOURCES if self.name == DATA else (REHEARSED[self.name].source,)
        self.say(f"making {', '.join(wanted)}" + ("" if self.name == DATA else " and the weights"))
        site = Site()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            for source in wanted:
                pool.submit(data.make_source, source, self.origin, self.quick).result()
                self.publish(source, site)
            if self.name != DATA:
                folder = self.origin / "model"
                made = pool.submit(models.make_hub, self.name, folder, self.quick)
                site.models[models.repository(self.name)] = made.result()
            pool.submit(data.write_two, self.home / "pictures").result()
        return site

    def publish(self, source: str, site: Site) -> None:
        folder = self.origin / source
        if source in sources.HUB_REPOS:
            site.datasets[sources.HUB_REPOS[source]] = {"main": folder}
            site.gated |= {sources.HUB_REPOS["winoground"]}
        elif source == "sugarcrepe":
            at = f"{sources.SUGARCREPE_REPO}/main/data"
            site.github = {f"{at}/{path.name}": path for path in folder.glob("*.json")}
            site.coco = folder / "val2017"
        else:
            files = (*sources.WHATSUP_ANNOTATIONS.values(), *sources.WHATSUP_IMAGES.values())
            site.drive = {file.id: folder / file.name for file in files}

    def environment(self, site: Site) -> dict[str, str]:
        """The user's, with an empty cache and without what would keep from downloading."""
        unwanted = ("HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_HUB_DISABLE_XET", "PYTHONWARNINGS")
        kept = {name: value for name, value in os.environ.items() if name not in unwanted}
        empty = {"HF_HOME": "huggingface", "XDG_CACHE_HOME": "cache", "TTM_JAX_DATA": "data"}
        folders = {name: str(self.home / folder) for name, folder in empty.items()}
        return {**kept, **folders, **site.environment(), "PYTHONPATH": str(ROOT)}

    def rehearse_model(self, plan: Rehearsed, env: dict[str, str]) -> None:
        for words in plan.before:
            self.run(words, env, "data")
        run = self.home / plan.run
        events = {
            "scores": lambda: (run / "metrics.jsonl").is_file(),
            "checkpoint": lambda: (run / "checkpoints" / "1").is_dir(),
        }
        later = Later(events["checkpoint"], 0.0 if self.quick else AFTER_CHECKPOINT)
        events["in iteration 2"] = later
        self.run(plan.command, env, plan.run, events=events, kill_at="in iteration 2")
        self.run(plan.command, env, plan.run)
        check_run(run)
        for words in plan.after:
            written = {"report": "report.html", "export": "adapted"}.get(words[1], "")
            self.run(words, env, written)

    def run(
        self,
        words: Sequence[str],
        env: dict[str, str],
        writes: str,
        *,
        events: dict | None = None,
        kill_at: str | None = None,
    ) -> None:
        """Run a command and add its row. A child's peak counts that of the process it came from.

        (Linux keeps the larger of both when a child becomes another program.)
        """
        self.say(f"$ {shlex.join(words)}" + (" (to be killed)" if kill_at else ""))
        done = processes.run(words, self.home, env, self.log, events=events, kill_at=kill_at)
        killed = kill_at is not None and done.code == -9
        if done.code != 0 and not killed:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
            raise SystemExit(f"{done.command} ended with {done.code}:\n{last}")
        if kill_at is not None and not killed:
            raise SystemExit(f"{done.command} ended before {kill_at}: it could not be killed")
        path = self.home / writes if writes else None
        row = table.Row(
            self.name, done.command, "killed" if killed else "done", done.seconds, done.peak_gb,
            done.events.get("scores"), None if path is None else processes.folder_gb(path), writes,
        )  # fmt: skip
        self.rows.append(row)
        self.say(f"  {row.result} after {row.seconds:.0f} s, peak {row.peak_gb:.2f} GB")

    def say(self, text: str) -> None:
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)


class Later:
    """An event that is seen some seconds after another."""

    def __init__(self, event: Callable[[], bool], seconds: float) -> None:
        self.event, self.seconds = event, seconds
        self.since: float | None = None

    def __call__(self) -> bool:
        if self.since is None and self.event():
            self.since = time.monotonic()
        return self.since is not None and time.monotonic() - self.since >= self.seconds


def check_run(run: Path) -> None:
    """Both iterations are there, and at least one of them was trained."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    if [line["iteration"] for line in lines] != [0, 1, 2] or not (run / "summary.json").is_file():
        raise SystemExit(f"{run} is not complete")
    if not any(line.get("losses") for line in lines):
        raise SystemExit(f"{run}: no group was selected, so nothing was trained")
