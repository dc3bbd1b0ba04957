"""How many groups a threshold selects and how many are right: SigLIP-B16 on two benchmarks.

    python -m experiments.ablation_coverage
    python -m experiments.ablation_coverage --small

Nothing is trained: --seeds, the settings of training and the trackers have no effect here.
"""

import sys

from configs.experiments import ABLATION_COVERAGE
from experiments._flags import Flags
from experiments._raw import name_of_model, score_arms, write_summary
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import parse


def main() -> None:
    flags = parse(Flags, sys.argv[1:], "python -m experiments.ablation_coverage", __doc__)
    from functools import partial

    import numpy as np

    from ttm_jax.data.score_files.arrays import ScoreFile
    from ttm_jax.engine.evaluation import evaluate
    from ttm_jax.hosts.shared_folder import write_atomic
    from ttm_jax.report.score_report import report_groups

    for plan, data, (scores,) in score_arms(ABLATION_COVERAGE, flags, "group"):
        truth = data.dataset.blocks[0].truth
        metrics = evaluate((scores,), data.dataset, "group")
        assert truth is not None  # the benchmarks have it
        write_atomic(plan.folder / "scores.npz", partial(np.savez, scores=scores, truth=truth))
        write_summary(plan, data, metrics)
        name = f"{data.dataset.name}, {name_of_model(plan)}"
        figure = plan.folder / "coverage.png"
        report_groups(ScoreFile(scores, truth), name, "auto", as_json=False, figure=figure)


if __name__ == "__main__":
    run(main)
