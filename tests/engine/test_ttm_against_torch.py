"""The whole loop against an independent one in PyTorch (torch_ttm.py), from the same files on disk.

PyTorch's loop in float64 is the oracle. Ours, in float32, must come as near to its scores as
PyTorch's own float32 loop does, up to a factor of 2, after every iteration; all three must select
the same units. So that this says something, each case also checks that training moves the scores
by far more than the loops differ, and that no unit is so close to the threshold that rounding
could decide about it.

AdamW divides each gradient by its own size, so an entry that is zero but for rounding moves its
parameter in a random direction. Most random datasets have no such entry that matters, and then the
loops differ by 1e-5; with one, two runs of PyTorch itself that start one bit apart differ by 1e-3.
The seed of each case was chosen with PyTorch alone: five float32 runs from parameters one bit away
from the given ones stay within about twice the distance of the plain float32 run.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import jax
import numpy as np
import pytest

import ttm_jax
from ttm_jax import GroupedDataset, TTMConfig
from ttm_jax.inputs.image_config import DEFAULTS

torch = pytest.importorskip("torch")

import tiny_torch  # noqa: E402
import torch_ttm  # noqa: E402

ITERATIONS, EPOCHS, LR, FACTOR = 3, 2, 1e-3, 2.0
LENGTH, EOS = tiny_torch.LENGTH, 40


@dataclass(frozen=True)
class Case:
    """A kind of data, with thresholds that select some units at first and (nearly) all at last."""

    family: Literal["siglip", "clip"]
    shape: tuple[int, int]
    groups: int
    batch: int  # in units; does not divide the number of selected units
    taus: tuple[float, float]
    seed: int
    schedule: Literal["linear", "cosine"] = "linear"
    global_matching: bool = False
    keep_opt_state: bool = False

    def all_taus(self) -> tuple[float, ...]:
        high, low = self.taus
        t = np.arange(ITERATIONS) / (ITERATIONS - 1)
        fall = t if self.schedule == "linear" else (1 - np.cos(np.pi * t)) / 2
        return tuple(high + (low - high) * fall)


SIGLIP_2X2 = Case("siglip", (2, 2), 11, 4, (0.35, 0.05), 5, "cosine")
CLIP_1X4 = Case("clip", (1, 4), 13, 6, (1.0, 0.0), 0, "cosine")
CASES = {
    "siglip-2x2": SIGLIP_2X2,
    "siglip-2x2-kept": replace(SIGLIP_2X2, keep_opt_state=True),
    "siglip-1x2": Case("siglip", (1, 2), 13, 6, (0.5, 0.0), 4),
    "siglip-1x4": Case("siglip", (1, 4), 13, 6, (1.0, 0.0), 7),
    "siglip-global": Case("siglip", (2, 2), 7, 6, (0.5, 0.2), 0, global_matching=True),
    "clip-2x2": Case("clip", (2, 2), 11, 4, (1.8, 0.0), 2),
    "clip-1x2": Case("clip", (1, 2), 13, 6, (1.0, 0.0), 0),
    "clip-1x4": CLIP_1X4,
    "clip-1x4-kept": replace(CLIP_1X4, keep_opt_state=True),
    # 13 images and 52 captions: most captions stay unmatched.
    "clip-global": Case("clip", (1, 4), 13, 6, (0.5, 0.0), 8, global_matching=True),
}
SLOW = {"siglip-1x2", "siglip-1x4", "clip-2x2", "clip-1x2", "clip-global"}
NAMES = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES]


def arrays(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """uint8 images and captions; CLIP's captions end at different places."""
    rng = np.random.default_rng(case.seed)
    images, texts = case.shape
    pixels = rng.integers(0, 256, (case.groups, images, 32, 32, 3), dtype=np.uint8)
    ids = rng.integers(3, EOS, (case.groups, texts, LENGTH)).astype(np.int32)
    if case.family == "clip":
        ends = rng.integers(4, LENGTH, (case.groups, texts, 1))
        ids = np.where(np.arange(LENGTH) >= ends, EOS, ids).astype(np.int32)
    return pixels, ids


@cache
def by_torch(case: Case, precision: Literal["float32", "float64"]) -> torch_ttm.Trace:
    pixels, ids = arrays(case)
    settings = torch_ttm.Settings(
        case.all_taus(), LR, EPOCHS, case.batch, case.global_matching, case.keep_opt_state
    )
    dtype, colours = np.dtype(precision).type, DEFAULTS[case.family]
    mean, std = np.asarray(colours.mean, dtype), np.asarray(colours.std, dtype)
    normalised = (pixels / dtype(255) - mean) / std
    model = tiny_torch.make(tiny_torch.CONFIGS[case.family], seed=0)
    return torch_ttm.run(model.to(getattr(torch, precision)), normalised, ids, settings)


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


def distances(scores, oracle: torch_ttm.Trace) -> np.ndarray:
    """The largest difference of any score, before training and after each iteration."""
    pairs = zip(scores, oracle.scores, strict=True)
    return np.array([np.abs(ours.astype(np.float64) - exact).max() for ours, exact in pairs])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    found = {}
    for family in ("siglip", "clip"):
        found[family] = tmp_path_factory.mktemp(family)
        tiny_torch.make(tiny_torch.CONFIGS[family], seed=0).save_pretrained(found[family])
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_cases_can_tell_loops_apart(name):
    """PyTorch alone: selection grows, training moves the scores, rounding decides nothing."""
    case = CASES[name]
    exact, single = by_torch(case, "float64"), by_torch(case, "float32")
    counts = [int(selected.sum()) for selected in exact.selected]
    assert 0 < counts[0] < counts[-1], "the pseudo-labels must grow"
    assert any(count % case.batch for count in counts), "some batch must be smaller"
    noise = distances(single.scores, exact)
    moved = [np.abs(b - a).max() for a, b in zip(exact.scores, exact.scores[1:], strict=False)]
    assert min(moved) > 1e4 * noise.max(), "training must change the scores"
    assert min(exact.nearest) > 100 * noise.max(), "a unit stands too near the threshold"


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_as_near_to_float64_as_pytorch_is_in_float32(name, folders):
    case = CASES[name]
    exact, single = by_torch(case, "float64"), by_torch(case, "float32")
    result = by_ttm_jax(case, folders[case.family])
    assert len(result.history) == ITERATIONS
    for t, record in enumerate(result.history):
        for selected in (record.selected, single.selected[t]):
            np.testing.assert_array_equal(selected, exact.selected[t], f"iteration {t + 1}")
        for matching in (record.matching, single.matchings[t]):
            np.testing.assert_array_equal(matching, exact.matchings[t], f"iteration {t + 1}")
    ours = distances([*(record.scores for record in result.history), result.scores], exact)
    theirs = distances(single.scores, exact)
    print(f"{name}: largest distance to float64, ttm_jax {ours}, PyTorch float32 {theirs}")
    assert (ours <= FACTOR * theirs).all()  # the line above shows by how much


@pytest.mark.parametrize("name", ["siglip-2x2", "clip-1x4"])
def test_reset_and_kept_optimizer_would_be_told_apart(name):
    reset, kept = (by_torch(CASES[n], "float64") for n in (name, f"{name}-kept"))
    noise = distances(by_torch(CASES[name], "float32").scores, reset).max()
    assert np.abs(kept.scores[-1] - reset.scores[-1]).max() > 1000 * noise
