"""The whole loop against an independent one in PyTorch (torch_ttm.py), from the same files on disk.

Selected sets must be the same in every iteration and scores within 1e-3 after the last. So that
this says something, each case also checks that training moved the scores by much more than that,
and that no group stood so near the threshold that rounding could decide about it.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import jax
import numpy as np
import pytest

import ttm_jax
from ttm_jax import GroupedDataset, TTMConfig
from ttm_jax.image_config import DEFAULTS

torch = pytest.importorskip("torch")

import tiny_torch  # noqa: E402
import torch_ttm  # noqa: E402

ITERATIONS, EPOCHS, TOLERANCE = 3, 2, 1e-3
LENGTH, EOS = tiny_torch.LENGTH, 40


@dataclass(frozen=True)
class Case:
    """A kind of data, with thresholds that select some units at first and (nearly) all at last."""

    family: Literal["siglip", "clip"]
    shape: tuple[int, int]
    groups: int
    batch: int  # in units; leaves a rest
    taus: tuple[float, float]
    schedule: Literal["linear", "cosine"] = "linear"
    global_matching: bool = False
    keep_opt_state: bool = False

    def all_taus(self) -> tuple[float, ...]:
        high, low = self.taus
        t = np.arange(ITERATIONS) / (ITERATIONS - 1)
        fall = t if self.schedule == "linear" else (1 - np.cos(np.pi * t)) / 2
        return tuple(high + (low - high) * fall)


CASES = {
    "siglip-2x2": Case("siglip", (2, 2), 11, 4, (0.35, 0.05), "cosine"),
    "siglip-1x4": Case("siglip", (1, 4), 13, 6, (1.0, 0.0)),
    "siglip-global": Case("siglip", (2, 2), 7, 6, (0.5, 0.2), global_matching=True),
    "siglip-2x2-kept": Case("siglip", (2, 2), 11, 4, (0.35, 0.05), "cosine", keep_opt_state=True),
    "clip-2x2": Case("clip", (2, 2), 11, 4, (1.8, 0.0)),
    "clip-1x4": Case("clip", (1, 4), 13, 6, (1.0, 0.0), "cosine"),
    "clip-1x4-kept": Case("clip", (1, 4), 13, 6, (1.0, 0.0), "cosine", keep_opt_state=True),
    # 13 images, 52 captions: most of them stay alone.
    "clip-global": Case("clip", (1, 4), 13, 6, (0.5, 0.0), global_matching=True),
}
LR = 3e-4


def arrays(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """uint8 images and captions; CLIP's end at different places."""
    rng = np.random.default_rng(0)
    images, texts = case.shape
    pixels = rng.integers(0, 256, (case.groups, images, 32, 32, 3), dtype=np.uint8)
    ids = rng.integers(3, EOS, (case.groups, texts, LENGTH)).astype(np.int32)
    if case.family == "clip":
        ends = rng.integers(4, LENGTH, (case.groups, texts, 1))
        ids = np.where(np.arange(LENGTH) >= ends, EOS, ids).astype(np.int32)
    return pixels, ids


@cache
def by_torch(case: Case, keep_opt_state: bool) -> torch_ttm.Trace:
    pixels, ids = arrays(case)
    settings = torch_ttm.Settings(
        case.all_taus(), LR, EPOCHS, case.batch, case.global_matching, keep_opt_state
    )
    colours = DEFAULTS[case.family]
    normalised = (pixels / np.float32(255) - np.float32(colours.mean)) / np.float32(colours.std)
    model = tiny_torch.make(tiny_torch.CONFIGS[case.family], seed=0)
    return torch_ttm.run(model, normalised, ids, settings)


def by_ttm_jax(case: Case, folder) -> ttm_jax.TTMResult:
    config = TTMConfig(
        matching="global" if case.global_matching else "group",
        tau_1=case.taus[0],
        tau_T=case.taus[1],
        tau_unit="fraction" if case.global_matching else "logit",
        schedule=case.schedule,
        lr=LR,
        iterations=ITERATIONS,
        epochs=EPOCHS,
        batch_groups=case.batch // 2 if case.global_matching else case.batch,
        keep_opt_state=case.keep_opt_state,
        shuffle=False,
    )
    dataset = GroupedDataset.from_arrays(*arrays(case))
    return ttm_jax.run_ttm(ttm_jax.load_model(folder), dataset, config, devices=jax.devices()[:1])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    found = {}
    for family in ("siglip", "clip"):
        found[family] = tmp_path_factory.mktemp(family)
        tiny_torch.make(tiny_torch.CONFIGS[family], seed=0).save_pretrained(found[family])
    return found


@pytest.mark.parametrize("name", CASES)
def test_same_run_as_in_pytorch(name, folders):
    case = CASES[name]
    expected = by_torch(case, case.keep_opt_state)
    assert min(expected.nearest) > 10 * TOLERANCE, "a unit stands too near the threshold"
    counts = [int(selected.sum()) for selected in expected.selected]
    assert 0 < counts[0] < counts[-1], "the pseudo-labels must grow"
    assert any(count % case.batch for count in counts), "some batch must be smaller"
    moved = [
        np.abs(b - a).max() for a, b in zip(expected.scores, expected.scores[1:], strict=False)
    ]
    assert min(moved) > 100 * TOLERANCE, "training must change the scores"

    result = by_ttm_jax(case, folders[case.family])
    assert len(result.history) == ITERATIONS
    for t, record in enumerate(result.history):
        np.testing.assert_array_equal(record.selected, expected.selected[t], f"iteration {t}")
        np.testing.assert_array_equal(record.matching, expected.matchings[t], f"iteration {t}")
        np.testing.assert_allclose(record.scores, expected.scores[t], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(result.scores, expected.scores[-1], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["siglip-2x2-kept", "clip-1x4-kept"])
def test_reset_and_kept_optimizer_would_be_told_apart(name):
    kept, reset = by_torch(CASES[name], True), by_torch(CASES[name], False)
    assert np.abs(kept.scores[-1] - reset.scores[-1]).max() > 10 * TOLERANCE
