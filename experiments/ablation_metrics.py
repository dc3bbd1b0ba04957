"""One model, four metrics: group, group match, individual and global, on Winoground.

    python -m experiments.ablation_metrics
    python -m experiments.ablation_metrics --small
    ttm figures runs/ablation_metrics

Nothing is trained: --seeds, the settings of training and the trackers have no effect here.
"""

import sys
from typing import Any

from configs.experiments import ABLATION_METRICS
from experiments._flags import Flags, root_of
from experiments._raw import name_of_model, score_arms, write_summary
from ttm_jax.cli.exit_codes import run
from ttm_jax.cli.options import parse
from ttm_jax.matching.metric_names import METRICS

SHOWN = ("group_score", "group_match", "individual_match", "global_match")


def main() -> None:
    flags = parse(Flags, sys.argv[1:], "python -m experiments.ablation_metrics", __doc__)
    from ttm_jax.engine.evaluation import evaluate
    from ttm_jax.hosts.shared_folder import write_text

    found: list[tuple[str, dict[str, Any]]] = []
    notes: list[str] = []
    for plan, data, scores in score_arms(ABLATION_METRICS, flags, "global"):
        metrics = evaluate(scores, data.dataset, "global")
        write_summary(plan, data, metrics)
        found.append((name_of_model(plan), metrics))
        notes.append(f"{len(data.dataset)} groups of {data.dataset.name}")
        notes += [f"not the paper's numbers: {note}"] if (note := plan.note(data)) else []
    if not found:  # --dry-run
        return
    models = [name for name, _ in found]
    lines = [f"| metric | chance | {' | '.join(models)} |", f"|{'---|' * (2 + len(models))}"]
    for name in SHOWN:
        rates = [metrics[name] for _, metrics in found]
        cells = (f"{rate['percent']:.2f} ({rate['count']}/{rate['of']})" for rate in rates)
        lines.append(f"| {METRICS[name].label} | {rates[0]['chance']:.2f} | {' | '.join(cells)} |")
    lines += ["", *dict.fromkeys(notes)]
    root = root_of(flags, ABLATION_METRICS.name)
    write_text(root / "results.md", "\n".join(lines) + "\n")
    print("\n".join(lines))
    print(f"also in {root}/results.md; `ttm figures {root}` draws it")


if __name__ == "__main__":
    run(main)
