"""How many groups a threshold selects and how many are right: SigLIP-B16 on two benchmarks.

    python -m experiments.ablation_coverage
    python -m experiments.ablation_coverage --small

Nothing is trained: --seeds, --iterations and the trackers have no effect here.
"""

import tyro

from configs.experiments import ABLATION_COVERAGE
from experiments._flags import Flags
from experiments._raw import score_arms
from ttm_jax.cli import run


def main() -> None:
    flags = tyro.cli(Flags, description=__doc__)
    from functools import partial

    import numpy as np

    from ttm_jax.data.score_arrays import ScoreFile
    from ttm_jax.evaluation import evaluate
    from ttm_jax.files import write_atomic, write_json
    from ttm_jax.report.score_report import report_groups

    for plan, data, (scores,) in score_arms(ABLATION_COVERAGE, flags, "group"):
        truth = data.dataset.blocks[0].truth
        metrics = evaluate((scores,), data.dataset, "group")
        write_json(plan.folder / "summary.json", {"raw": metrics, "data": data.facts})
        assert truth is not None  # the benchmarks have it
        write_atomic(plan.folder / "scores.npz", partial(np.savez, scores=scores, truth=truth))
        name = f"{data.dataset.name}, {plan.arm.preset.model}"
        figure = plan.folder / "coverage.png"
        report_groups(ScoreFile(scores, truth), name, "auto", as_json=False, figure=figure)


if __name__ == "__main__":
    run(main)
