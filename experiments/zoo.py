"""Any model on any benchmark, your own data, or the procedural world: one table.

    python -m experiments.zoo --small
    python -m experiments.zoo --model google/siglip-base-patch16-224 --data bivlc mmvp_vlm
    python -m experiments.zoo --model my_model --model small-siglip --data my_data world:left_right

Scores each model on each dataset once: all metrics with chance, and what a diagnosis says without
labels. Nothing is trained. Rerun the same command to resume: what was scored is not scored again.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from experiments._checks import check_at_least
from experiments._flags import Exif, Flags
from ttm_jax.bucket_storage import fetched, working_folder
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import Switch, given, option, parse
from ttm_jax.data.benchmarks.catalogue import BENCHMARKS
from ttm_jax.errors import InputError
from ttm_jax.hosts.join import Hosts, join

WORLD = "world:"
SMALL_DATA = ("world:color_swap", "world:replace_shape", "world:left_right")
SMALL_MODELS = ("small-siglip", "small-clip")
_FORMAT = 1


@dataclass(frozen=True)
class Args:
    model: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, option("SOURCE")] = ()
    """Checkpoint: small-siglip, a hub id, a Hugging Face folder, a big_vision .npz or a run folder.
    Repeat the flag for several."""
    data: Annotated[tuple[str, ...], option("NAME [NAME ...]")] = ()
    """Benchmarks (`ttm data --list`), all variants of a source (`sugarcrepe`), folders or tables of
    your own, or variants of the procedural world (`world:color_swap`; `ttm world --list`)."""
    small: Switch = False
    """The small models on three variants of the world, unless others are given: no download."""
    limit: Annotated[int | None, option("N", "all; 200 of the world")] = None
    """Use only the first N groups."""
    data_dir: Annotated[Path | None, option("PATH", "$TTM_JAX_DATA or the user's cache")] = None
    """Where the benchmarks are; see `ttm data`."""
    fetch: Switch = True
    """Do not download a missing benchmark; say how to get it."""
    skip_broken: Switch = False
    """Leave out groups whose images cannot be read."""
    exif: Exif = "as-published"
    """Apply the EXIF orientation of images: on, off, or as the authors' program does."""
    run_dir: Annotated[Path | None, option("PATH", "runs/zoo, or runs/zoo_small")] = None
    """Where the table and the scored cells go."""
    resume: Switch = True
    """Score everything again."""
    hosts: Hosts = "auto"
    """Form one program with the same command on other hosts (TPU pod, SLURM, ...), or do not look
    for any."""
    quiet: Switch = False
    """Print the table only, no progress."""


def main() -> None:
    args = parse(Args, sys.argv[1:], "python -m experiments.zoo", __doc__)
    check_at_least("--limit", args.limit)
    models = args.model or (SMALL_MODELS if args.small else ())
    if not models or not (args.data or args.small):
        raise InputError("give --model and --data, or --small for an example without a download")
    names = find_data(args.data or SMALL_DATA)
    join(args.hosts)
    root = args.run_dir or Path("runs") / ("zoo_small" if args.small else "zoo")
    from ttm_jax.hosts.shared_folder import write_json, write_text
    from ttm_jax.report.tables import zoo
    from ttm_jax.runs.console import Console

    root = working_folder(root)
    rows: list[zoo.Row] = []
    with Console("quiet" if args.quiet else "plain") as console:
        for row in score(replace(args, model=models, data=names), root, console):
            rows.append(row)
            write_text(root / "zoo.md", zoo.markdown(rows))
            write_text(root / "zoo.csv", zoo.as_csv(rows))
            write_json(root / "zoo.json", {"rows": [row.as_json() for row in rows]})
    zoo.print_rows(rows, "Scores without training")
    print("\n".join(zoo.sentences(row for row in rows if not row.is_missing)))
    print(f"also in {root}/zoo.md, zoo.csv and zoo.json")
    missing = [row for row in rows if row.is_missing]
    for row in missing:
        print(f"missing: {row.data}, {row.model}: {row.note}", file=sys.stderr)
    if missing:
        raise InputError(f"{len(missing)} of {len(rows)} could not be scored, see above")


def find_data(names: tuple[str, ...]) -> tuple[str, ...]:
    """What every name means, before anything is loaded."""
    found: list[str] = []
    for name in names:
        benchmarks = [b.name for b in BENCHMARKS.values() if name in (b.name, b.source)]
        if name.startswith(WORLD):
            from ttm_jax.data.world import find_variant

            find_variant(name.removeprefix(WORLD))
        elif not benchmarks and "://" not in name and not Path(name).expanduser().exists():
            raise InputError(
                f"--data {name}: no benchmark (ttm data --list), no variant of the world "
                f"({WORLD}color_swap; ttm world --list), and no folder or file"
            )
        found += benchmarks or [name]
    return tuple(dict.fromkeys(found))


def score(args: Args, root: Path, console: Any) -> Iterator[Any]:
    """The rows, model by model; a model is loaded when the first of its cells has to be scored."""
    from ttm_jax.hosts.shared_folder import write_json
    from ttm_jax.report.tables import zoo

    for source in args.model:
        model, problem = None, ""
        for name in args.data:
            try:
                dataset, grouped, known = load_data(name, args)
                key = {**known, "model": source, "limit": args.limit, "exif": args.exif}
                path = root / "cells" / f"{_slug(name)}_{_slug(source)}_{_digest(key)}.json"
                row = _finished(path, key) if args.resume else None
                if row is not None:
                    console.say(f"{name}, {source}: scored already")
                    yield row
                    continue
                if problem:
                    raise InputError(problem)
                if model is None:
                    try:
                        model = _load_model(source)
                    except InputError as error:
                        problem = str(error)
                        raise
                console.say(f"{name}, {source}: scoring {len(dataset)} groups")
                row = zoo.measure(model, dataset, name, source, grouped=grouped)
            except InputError as error:
                yield zoo.missing(name, source, str(error))
                continue
            write_json(path, {"format": _FORMAT, "key": key, "row": row.as_json()})
            yield row


def load_data(name: str, args: Args) -> tuple[Any, bool, dict[str, Any]]:
    """A dataset, whether it has groups, and what tells it from others."""
    from ttm_jax.runs.identity import dataset_checksum

    grouped = True
    if name.startswith(WORLD):
        from ttm_jax.data import world
        from ttm_jax.small.settings import GROUPS

        dataset = world.make(name.removeprefix(WORLD), min(given(args.limit, GROUPS), GROUPS))
    elif name in BENCHMARKS:
        from experiments._load import load_or_fetch

        flags = Flags(
            data_dir=args.data_dir, fetch=args.fetch, skip_broken=args.skip_broken, exif=args.exif
        )
        dataset = load_or_fetch(name, flags).dataset
    else:
        from ttm_jax.data.own_data import read_own_data

        own = read_own_data(fetched(Path(name)))
        dataset, grouped = own.dataset, own.grouped
    if args.limit is not None and grouped:
        dataset = dataset.limit(args.limit)
    return dataset, grouped, {"data": name, "checksum": dataset_checksum(dataset)}


def _load_model(source: str) -> Any:
    from experiments._load import load_model

    return load_model(source)


def _finished(path: Path, key: dict[str, Any]) -> Any:
    """The row of a cell that was scored before; None if there is none, or one of something else."""
    from ttm_jax.report.tables import zoo

    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] != _FORMAT or stored["key"] != key:
            return None
        return zoo.from_json(stored["row"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _slug(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[-60:]


def _digest(key: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]


if __name__ == "__main__":
    run(main)
