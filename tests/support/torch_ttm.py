"""Test-Time Matching in plain PyTorch as a reference: the paper's Algorithm 1 line by line.

Slow and simple on purpose. Nothing of ttm_jax is used here: matchings are tried one by one, batches
are lists of pairs, and optimizer and learning rate are PyTorch's own. It computes in the precision
of the model and the pixels that it is given, float32 or float64.
"""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

torch.set_num_threads(1)  # for tiny tensors a second thread does not help
Pair = tuple[int, int]  # image, caption: positions in the flat lists of all images and captions


@dataclass(frozen=True)
class Settings:
    """Thresholds of all iterations and training settings; `batch` counts groups (or pairs)."""

    taus: tuple[float, ...]
    lr: float
    epochs: int
    batch: int
    global_matching: bool = False
    keep_opt_state: bool = False


@dataclass
class Trace:
    """What happened: one entry per iteration; of the scores also those after the last one."""

    scores: list[np.ndarray] = field(default_factory=list)
    matchings: list[np.ndarray] = field(default_factory=list)
    confidences: list[np.ndarray] = field(default_factory=list)
    selected: list[np.ndarray] = field(default_factory=list)
    nearest: list[float] = field(default_factory=list)  # distance of a confidence to the threshold


def run(model: torch.nn.Module, pixels: np.ndarray, ids: np.ndarray, settings: Settings) -> Trace:
    """Adapt `model` in place; `pixels` [G, I, H, W, 3] are normalised, `ids` are [G, T, L]."""
    images = torch.from_numpy(pixels.reshape(-1, *pixels.shape[2:])).permute(0, 3, 1, 2)
    texts = torch.from_numpy(ids.reshape(-1, ids.shape[-1])).long()
    shape = None if settings.global_matching else (len(pixels), pixels.shape[1], ids.shape[1])
    trace, optimizer = Trace(), None
    trace.scores.append(score(model, images, texts, shape))
    for iteration, tau in enumerate(settings.taus):
        if shape is None:
            units = match_all(trace.scores[-1], tau, trace)
        else:
            units = match_groups(trace.scores[-1], tau, trace)
        if optimizer is None or not settings.keep_opt_state:
            optimizer = torch.optim.AdamW(
                model.parameters(), lr=1.0, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.05
            )
        finetune(model, optimizer, images, texts, units, settings, iteration)
        trace.scores.append(score(model, images, texts, shape))
    return trace


def score(model, images, texts, shape: tuple[int, int, int] | None) -> np.ndarray:
    """Logits of all images and captions; for groups, only the blocks on the diagonal."""
    with torch.no_grad():
        logits = model(pixel_values=images, input_ids=texts).logits_per_image.double().numpy()
    if shape is None:
        return logits
    groups, i, t = shape
    return np.stack([logits[g * i : (g + 1) * i, g * t : (g + 1) * t] for g in range(groups)])


def match_groups(scores: np.ndarray, tau: float, trace: Trace) -> list[list[Pair]]:
    """The pairs of every group whose best matching exceeds the second best by at least tau."""
    groups, n_images, n_texts = scores.shape
    matchings, margins, units = [], [], []
    for group in range(groups):
        totals = {
            matching: sum(scores[group, image, text] for image, text in enumerate(matching))
            for matching in itertools.permutations(range(n_texts), n_images)
        }
        best, second = sorted(totals, key=lambda m: totals[m], reverse=True)[:2]
        matchings.append(best)
        margins.append(totals[best] - totals[second])
        if margins[-1] >= tau:
            first_image, first_text = group * n_images, group * n_texts
            units.append([(first_image + i, first_text + t) for i, t in enumerate(best)])
    trace.matchings.append(np.array(matchings))
    trace.confidences.append(np.array(margins))
    trace.selected.append(trace.confidences[-1] >= tau)
    trace.nearest.append(float(np.abs(trace.confidences[-1] - tau).min()))
    return units


def match_all(scores: np.ndarray, tau: float, trace: Trace) -> list[list[Pair]]:
    """One assignment of all images; of its pairs, the fraction 1 - tau with the highest scores."""
    images, texts = linear_sum_assignment(scores, maximize=True)
    similarity = scores[images, texts]
    count = math.floor(len(images) * (1 - tau) + 1e-10)
    order = np.argsort(-similarity)
    selected = np.zeros(len(images), bool)
    selected[order[:count]] = True
    sorted_scores = similarity[order]
    gap = sorted_scores[count - 1] - sorted_scores[count] if 0 < count < len(images) else math.inf
    trace.matchings.append(texts)
    trace.confidences.append(similarity)
    trace.selected.append(selected)
    trace.nearest.append(float(gap))
    return [[(i, texts[i])] for i in range(len(images)) if selected[i]]


def finetune(model, optimizer, images, texts, units, settings: Settings, iteration: int) -> None:
    """Epochs over the selected units in order; the cosine restarts, 5 % lower each iteration."""
    batches = [units[i : i + settings.batch] for i in range(0, len(units), settings.batch)]
    steps = settings.epochs * len(batches)
    top = settings.lr * 0.95**iteration
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] = top
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, T_max=max(steps, 1), eta_min=0.1 * top
    )
    for _ in range(settings.epochs):
        for batch in batches:
            chosen_images, chosen_texts = zip(*itertools.chain(*batch), strict=True)
            out = model(
                pixel_values=images[list(chosen_images)], input_ids=texts[list(chosen_texts)]
            )
            optimizer.zero_grad()
            contrastive_loss(model.config.model_type, out.logits_per_image).backward()
            optimizer.step()
            schedule.step()


def contrastive_loss(family: str, logits: torch.Tensor) -> torch.Tensor:
    """Pair n is image n with caption n; every other combination in the batch is a negative."""
    n = len(logits)
    if family == "clip":
        target = torch.arange(n)
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
    target = torch.eye(n, dtype=logits.dtype)
    losses = [
        F.binary_cross_entropy_with_logits(logits[i], target[i], reduction="sum") for i in range(n)
    ]
    return torch.stack(losses).mean()
