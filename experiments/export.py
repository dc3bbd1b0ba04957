"""Take the model of a run out: as a Hugging Face folder, or as a big_vision checkpoint.

    python -m experiments.export runs/mmvp_siglip/seed_0 --to huggingface adapted
    python -m experiments.export runs/mmvp_siglip/seed_0 --iteration 9 --to big_vision adapted

transformers loads the one, big_vision the other, and `ttm_jax.load_model` both.
"""

from pathlib import Path
from typing import Literal

import tyro

from ttm_jax.cli import run


def main(
    run_folder: tyro.conf.Positional[Path],
    folder: tyro.conf.Positional[Path],
    to: Literal["huggingface", "big_vision"] = "huggingface",
    iteration: int | None = None,
) -> None:
    """Export the adapted model of a run.

    Args:
        run_folder: the folder of one seed.
        folder: where the model goes: a folder that is not there yet. As big_vision, the file in it
            is checkpoint.npz; a name that ends in .npz is taken as the file itself.
        to: the format. big_vision has no CLIP.
        iteration: the model after this iteration (default: the last one). A run keeps the
            checkpoints of its last iterations; `keep_checkpoints=0` keeps all.
    """
    from ttm_jax.report.export import export_run

    print(export_run(run_folder, iteration, to, folder))


if __name__ == "__main__":
    run(lambda: tyro.cli(main))
