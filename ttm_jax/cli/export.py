"""Export the model of a run as a Hugging Face folder or a big_vision checkpoint.

    ttm export runs/mmvp_siglip/seed_0 --to huggingface adapted
    ttm export runs/mmvp_siglip/seed_0 --iteration 9 --to big_vision adapted
    ttm export runs/mine --push USER/NAME

transformers loads the former, big_vision the latter, and `ttm_jax.load_model` both. The folder gets
a model card, README.md: base model, data, settings, metrics before and after, how to load it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ttm_jax.cli.options import Switch, option, parse


def export(
    run_folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")],
    folder: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(metavar="[FOLDER]", help_behavior_hint="(default: RUN_model beside RUN)"),
    ] = None,
    to: Literal["huggingface", "big_vision"] = "huggingface",
    iteration: Annotated[int | None, option("N", "the last")] = None,
    base: Annotated[str | None, option("SOURCE", "as recorded in the run")] = None,
    push: Annotated[str | None, option("USER/NAME")] = None,
    private: Switch = False,
) -> None:
    """Export the adapted model of a run.

    Args:
        run_folder: The run folder of one seed, or what `ttm adapt` has written.
        folder: A new folder for the model. With --to big_vision, the file in it is
            checkpoint.npz; a name that ends in .npz is the file itself.
        to: The format. big_vision has no CLIP.
        iteration: Export the model after this iteration. A run keeps the checkpoints of its last
            iterations, and the one that looks best without labels; `keep_checkpoints=0` keeps all.
        base: The model that the run started from, if it has moved or is an address such as gs://.
            An address that only the run folder names is refused.
        push: Also upload the folder to this repository on the Hugging Face hub. The token comes
            from HF_TOKEN or `hf auth login`.
        private: Create the repository as a private one.
    """
    from ttm_jax.errors import InputError
    from ttm_jax.report.checkpoints.export import export_run
    from ttm_jax.weights.hub_upload import check_repository, push_folder

    if folder is None:
        named = run_folder if run_folder.name not in ("", "..") else run_folder.resolve()
        folder = named.with_name(f"{named.name}_model")
    if push is not None:
        check_repository(push)
        if folder.suffix == ".npz":
            raise InputError(f"--push uploads a folder; {folder} is one file, so name a folder")
    print(export_run(run_folder, iteration, to, folder, base, name=push or ""))
    if push is not None:
        print(push_folder(folder, push, private=private))


def main(argv: Sequence[str]) -> None:
    parse(export, argv, "ttm export", __doc__)
