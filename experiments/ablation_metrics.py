"""One model, four metrics: group, group match, individual and global, on Winoground.

    python -m experiments.ablation_metrics
    python -m experiments.ablation_metrics --small

Nothing is trained: --seeds, --iterations and the trackers have no effect here.
"""

from typing import Any

import tyro

from configs.experiments import ABLATION_METRICS
from experiments._flags import Flags, root_of
from experiments._raw import score_arms
from ttm_jax.cli import run

METRICS = {
    "group_score": "GroupScore",
    "group_match": "GroupMatch",
    "individual_match": "individual matching",
    "global_match": "global matching",
}


def main() -> None:
    flags = tyro.cli(Flags, description=__doc__)
    from ttm_jax.evaluation import evaluate
    from ttm_jax.files import write_json, write_text

    found: dict[str, dict[str, Any]] = {}
    for plan, data, scores in score_arms(ABLATION_METRICS, flags, "global"):
        metrics = evaluate(scores, data.dataset, "global")
        write_json(plan.folder / "summary.json", {"raw": metrics, "data": data.facts})
        found[plan.arm.preset.model] = {name: metrics[name] for name in METRICS}
    lines = [f"| metric | chance | {' | '.join(found)} |", f"|{'---|' * (2 + len(found))}"]
    for name, title in METRICS.items():
        rates = [metrics[name] for metrics in found.values()]
        cells = (f"{rate['percent']:.2f} ({rate['count']}/{rate['of']})" for rate in rates)
        lines.append(f"| {title} | {rates[0]['chance']:.2f} | {' | '.join(cells)} |")
    root = root_of(flags, ABLATION_METRICS.name)
    write_text(root / "results.md", "\n".join(lines) + "\n")
    print("\n".join(lines))
    print(f"also in {root}/results.md")


if __name__ == "__main__":
    run(main)
