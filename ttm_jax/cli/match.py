"""Match images to captions with any checkpoint, without training: one caption for each image.

    ttm match --model google/siglip-base-patch16-224 --data photos --captions captions.txt

The data is what `ttm adapt` takes (docs/own_data.md). All images are matched with all captions at
once, or within their groups if the data has some. The assignment is the best of all, also for
100,000 images, whose scores would not fit in memory. OUT gets one line per image: its caption, the
similarity, whether that pair is settled (unique), and the runner-up.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ttm_jax.cli.options import Switch, option, parse
from ttm_jax.config import Matching, TTMConfig
from ttm_jax.data.own_data import OwnData, read_own_data
from ttm_jax.errors import InputError

if TYPE_CHECKING:
    from ttm_jax.training.task import Scores


@dataclass(frozen=True)
class Args:
    model: str
    """Hub id (google/siglip-base-patch16-224), folder, .npz, run, or small-siglip (drawings)."""
    data: Path
    """Folder of images, or of lists; or a table (.csv, .tsv, .parquet)."""
    captions: Annotated[Path | None, option("PATH", "captions.csv or .txt in the folder")] = None
    """The captions of a folder of images: .txt, .csv, .tsv or .parquet."""
    image_column: Annotated[str | None, option("NAME", "image, file_name, path, ...")] = None
    """Column of the image files or pictures in a table."""
    caption_column: Annotated[str | None, option("NAME", "caption, text, ...")] = None
    """Column of the captions in a table."""
    out: Annotated[Path | None, option("PATH.jsonl", "DATA_matchings.jsonl in this folder")] = None
    """Where the matchings go."""
    matching: Literal["auto", "group", "global"] = "auto"
    """Match within groups, or all images and captions at once; auto follows the data."""
    seconds: Annotated[float | None, option("S", "no limit")] = None
    """Of a very large matching: stop after this time with the best so far, and say how far it may
    be from the optimum."""
    gap: float = 0.0
    """Of a very large matching: stop if the total is proved to be at most this share below the
    optimum, for example 1e-4."""
    revision: Annotated[str | None, option("REVISION", "the main branch")] = None
    """Branch, tag or commit of a hub model."""
    files_from: Annotated[str | None, option("SOURCE")] = None
    """Hugging Face folder or hub id that provides the tokenizer for an .npz."""
    quiet: Switch = False
    """Print the result only, no progress."""


def main(argv: Sequence[str]) -> None:
    args = parse(Args, argv, "ttm match", __doc__)
    data = read_own_data(
        args.data,
        args.captions,
        image_column=args.image_column,
        caption_column=args.caption_column,
    )
    if not data.grouped and args.matching == "group":
        raise InputError(f"{args.data} has no groups; --matching group needs some")
    kind: Matching = "group" if data.grouped and args.matching != "global" else "global"
    config = TTMConfig(
        matching=kind,
        tau_unit="fraction",
        match_seconds=args.seconds,
        match_gap=args.gap,
    )
    out = args.out or Path(f"{data.dataset.name}_matchings.jsonl")
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}")
    _say(args, *data.notes, f"{data.dataset!r}", f"loading {args.model}")
    from ttm_jax.engine.global_scores import round_text
    from ttm_jax.engine.raw_scores import raw_scores
    from ttm_jax.load import load_model

    model = load_model(args.model, revision=args.revision, files_from=args.files_from)
    began = time.perf_counter()
    scores = raw_scores(
        model, data.dataset, kind, config, on_round=lambda found: _say(args, round_text(found))
    )
    text = "".join(
        json.dumps(line, ensure_ascii=False) + "\n" for line in _lines(data, scores, kind)
    )
    from ttm_jax.files import write_text

    write_text(out, text)
    for line in _result(data, scores, kind, time.perf_counter() - began):
        print(line)
    print(f"matchings: {out}")


def _say(args: Args, *lines: str) -> None:
    if not args.quiet:
        for line in lines:
            print(line, file=sys.stderr, flush=True)


def _lines(data: OwnData, scores: "Scores", kind: Matching) -> Iterator[dict[str, Any]]:
    """In the words of the user, as `ttm adapt` writes them."""
    from ttm_jax.report.matchings_jsonl import untrained_lines

    return untrained_lines(data.dataset, scores, kind, data.folder)


def _result(data: OwnData, scores: "Scores", kind: Matching, seconds: float) -> Iterator[str]:
    """What was found, how certain it is, and, if the truth is known, what it is worth."""
    from ttm_jax.engine.evaluation import evaluate
    from ttm_jax.engine.global_scores import assignment_of
    from ttm_jax.engine.pseudo_labels import induce
    from ttm_jax.matching.metric_names import METRICS

    found = induce(scores, kind)
    units = sum(len(block.unique) for block in found)
    settled = sum(int(block.unique.sum()) for block in found)
    what = "images" if kind == "global" else "groups"
    yield f"{settled:,} of {units:,} {what} have a settled matching ({seconds:.0f} s)"
    proof = assignment_of(scores).get("assignment")
    if proof and not proof["proved"]:
        yield (
            f"stopped early: the total is at most {proof['gap']:.1e} of itself below the optimum; "
            "settled means among the pairs that were considered"
        )
    elif proof:
        yield f"proved: the best of all assignments ({proof['rounds']} rounds)"
    dataset = data.dataset.ungrouped() if kind == "global" else data.dataset
    for name, rate in evaluate(scores, dataset, kind).items():
        if name in ("global_match", "group_match"):
            yield (
                f"{METRICS[name].label}: {rate['percent']:.2f} ({rate['count']}/{rate['of']}), "
                f"chance {rate['chance']:.2g}"
            )
