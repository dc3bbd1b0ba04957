"""Accuracy of a small model before any adaptation, on every variant of the world."""

from pathlib import Path
from typing import Any

from ttm_jax.data import world
from ttm_jax.data.groups import GroupedDataset
from ttm_jax.engine.evaluation import evaluate
from ttm_jax.engine.raw_scores import raw_scores
from ttm_jax.files import read_json, write_json
from ttm_jax.load import load_model
from ttm_jax.scorers.contrastive.model import ContrastiveModel
from ttm_jax.scorers.vqa.model import VQAModel

HOLDOUT_SEED = 1000  # `experiments.small` reports seed 0


def measure(folder: Path, groups: int = 200) -> dict[str, Any]:
    """GroupScore and GroupMatch of each variant, unshifted and shifted; added to recipe.json."""
    model = load_model(folder)
    quality = {
        split: {
            name: _percents(model, world.make(name, groups, HOLDOUT_SEED, split=split))
            for name in world.VARIANTS
        }
        for split in ("train", "test")
    }
    path = folder / "recipe.json"
    write_json(path, {**read_json(path), "quality": quality})
    return quality


def _percents(model: ContrastiveModel | VQAModel, dataset: GroupedDataset) -> dict[str, float]:
    metrics = evaluate(raw_scores(model, dataset), dataset, "group")
    return {name: metrics[name]["percent"] for name in ("group_score", "group_match")}
