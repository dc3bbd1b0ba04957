"""A whole Test-Time Matching run compared with a plain PyTorch loop: wall time and peak memory.

    python benchmarks/ttm.py                        # SigLIP-B16 on 2x2, CLIP-B32 on 1x4; long
    python benchmarks/ttm.py --models clip-b32 --groups 48 --epochs 4
    python benchmarks/ttm.py --quick                # tiny models: does it run?

Three iterations over a few dozen groups, from images in memory. There are two PyTorch loops. The
usual one is written the way such loops usually are: every batch resizes its images again, captions
are padded to the model's full length, and the model is scored twice per iteration, once to report
and once to match. The careful one resizes once, cuts captions, encodes what is distinct, and scores
once. All train in float32 on the same data with the same settings and must select the same groups.

A further row trains the last two blocks of both towers only (`train="last:2"`), compared with
training everything.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tyro
from _models import NAMES, Name, Sizes, captions, torch_model, weight_writer
from _results import Results
from _sides import Parts, Side, machine, make_console, take_turns

SHAPES: dict[Name, tuple[int, int]] = {"siglip-b16": (2, 2), "clip-b32": (1, 4)}
# By default: a run of SigLIP takes minutes.
GROUPS: dict[Name, int] = {"siglip-b16": 12, "clip-b32": 16}
TURNS: dict[Name, int] = {"siglip-b16": 1, "clip-b32": 3}
SHARED = 4  # groups of 1x4 that share their captions, as in WhatsUp
PICTURE = (320, 240)
SCORE_BATCH = 16
LAST = "last:2"
# Events subtracted from the first run; not tracing, because traces nest and would count twice.
COMPILING = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


@dataclass(frozen=True)
class Work:
    """The workload, identical for both sides."""

    name: Name
    sizes: Sizes
    groups: int
    batch: int
    epochs: int
    iterations: int = 3
    coverage: float = 0.3
    lr: float = 1e-5

    @property
    def shape(self) -> tuple[int, int]:
        return SHAPES[self.name]

    def pictures(self) -> list[Any]:
        """Smooth random images, ordered by group."""
        from PIL import Image

        rng = np.random.default_rng(0)
        coarse = rng.integers(0, 256, (self.groups * self.shape[0], 12, 16, 3), dtype=np.uint8)
        return [Image.fromarray(x).resize(PICTURE, Image.Resampling.BICUBIC) for x in coarse]

    def captions(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct captions [M, L] and those of each group [G, T]."""
        texts = self.shape[1]
        group = np.arange(self.groups)
        owner = group if self.name == "siglip-b16" else group // SHARED
        distinct = captions(self.sizes, (owner[-1] + 1) * texts, np.random.default_rng(1))
        return distinct, (owner[:, None] * texts + np.arange(texts)).astype(np.int32)


def jax_parts(folder: str, work: Work) -> Parts:
    import jax

    import ttm_jax
    from ttm_jax.data.groups import Block, GroupedDataset

    ids, text_index = work.captions()
    images = np.arange(work.groups * work.shape[0], dtype=np.int32).reshape(work.groups, -1)
    block = Block(tuple(map(str, range(work.groups))), images, text_index)
    dataset = GroupedDataset("benchmark", tuple(work.pictures()), ids, (block,))
    config = ttm_jax.TTMConfig(
        coverage=work.coverage,
        lr=work.lr,
        iterations=work.iterations,
        epochs=work.epochs,
        batch_groups=work.batch,
        shuffle=False,
        grow_batch=False,
    )
    compiling = [0.0]

    def heard(event: str, seconds: float, **_: Any) -> None:
        if event in COMPILING:
            compiling[0] += seconds

    jax.monitoring.register_event_duration_secs_listener(heard)

    def run(train: str) -> dict[str, Any]:
        before = compiling[0]
        result = ttm_jax.run_ttm(
            ttm_jax.load_model(folder), dataset, replace(config, train=train), donate=True
        )
        selected = [int(record.selected.sum()) for record in result.history]
        return {"selected": selected, "compile": compiling[0] - before}

    return {"all": partial(run, "all"), "last": partial(run, LAST)}


class PlainLoop:
    """The PyTorch side: Algorithm 1 without caching or sharing."""

    def __init__(self, folder: str, work: Work) -> None:
        import torch
        from transformers import CLIPImageProcessorPil, SiglipImageProcessorPil

        side = work.sizes.image_size
        if work.name == "clip-b32":
            self.processor: Any = CLIPImageProcessorPil(
                size={"shortest_edge": side}, crop_size={"height": side, "width": side}
            )
        else:
            self.processor = SiglipImageProcessorPil(size={"height": side, "width": side})
        self.folder, self.work = folder, work
        self.model = torch_model(folder)
        self.pictures = work.pictures()
        ids, index = work.captions()
        self.ids = torch.from_numpy(ids[index.reshape(-1)]).long()  # as listed by the groups

    def run(self) -> dict[str, Any]:
        import torch

        work, counts = self.work, []
        self.model = torch_model(self.folder)  # start from the initial weights
        tau_1 = None
        for iteration in range(work.iterations):
            self.scores()  # to report
            matching, margin = best_matching(self.scores())
            if tau_1 is None:
                tau_1 = np.sort(margin)[::-1][int(np.ceil(work.coverage * len(margin))) - 1]
            tau = np.linspace(tau_1, 0.0, work.iterations)[iteration]
            selected = np.flatnonzero(margin >= tau)
            counts.append(len(selected))
            optimizer = torch.optim.AdamW(
                self.model.parameters(), lr=work.lr * 0.95**iteration, weight_decay=0.05
            )
            steps = work.epochs * -(-len(selected) // work.batch)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
                optimizer, steps, 0.1 * work.lr * 0.95**iteration
            )
            for pixels, ids in self.batches(selected, matching):
                optimizer.zero_grad()
                self.model(pixel_values=pixels, input_ids=ids, return_loss=True).loss.backward()
                optimizer.step()
                schedule.step()
        self.scores()  # the result
        return {"selected": counts, "compile": 0.0}

    def pixels(self, rows: Any) -> Any:
        pictures = [self.pictures[int(row)] for row in rows]
        return self.processor(images=pictures, return_tensors="pt")["pixel_values"]

    def batches(self, selected: np.ndarray, matching: np.ndarray) -> Iterator[tuple[Any, Any]]:
        images, texts = self.work.shape
        for _ in range(self.work.epochs):
            for start in range(0, len(selected), self.work.batch):
                groups = selected[start : start + self.work.batch, None]
                chosen = groups * texts + matching[groups[:, 0]]
                rows = groups * images + np.arange(images)
                yield self.pixels(rows.reshape(-1)), self.ids[chosen.reshape(-1)]

    def scores(self) -> np.ndarray:
        """scores[group, image, text]; encodes every image and caption of every group."""
        import torch

        model, found = self.model, []
        images, texts = self.work.shape
        per_batch = max(1, SCORE_BATCH // max(images, texts))
        with torch.inference_mode():
            for start in range(0, self.work.groups, per_batch):
                groups = np.arange(start, min(start + per_batch, self.work.groups))
                rows = np.arange(groups[0] * images, (groups[-1] + 1) * images)
                ids = self.ids[groups[0] * texts : (groups[-1] + 1) * texts]
                logits = model(pixel_values=self.pixels(rows), input_ids=ids).logits_per_image
                for g in range(len(groups)):
                    own = logits[g * images : (g + 1) * images, g * texts : (g + 1) * texts]
                    found.append(own.numpy())
        return np.stack(found)


class CarefulLoop(PlainLoop):
    """The same algorithm, with each thing done once."""

    def __init__(self, folder: str, work: Work) -> None:
        super().__init__(folder, work)
        import torch

        ids, self.index = work.captions()
        if work.sizes.eos is not None:  # nothing after the end of a caption has an effect
            longest = int((ids == work.sizes.eos).argmax(axis=1).max()) + 1
            ids, self.ids = ids[:, :longest], self.ids[:, :longest]
        self.distinct = torch.from_numpy(ids).long()
        self.prepared: Any = None

    def run(self) -> dict[str, Any]:
        self.prepared = self.kept = None
        return super().run()

    def pixels(self, rows: Any) -> Any:
        if self.prepared is None:
            self.prepared = super().pixels(range(len(self.pictures)))
        return self.prepared[np.asarray(rows)]

    def scores(self) -> np.ndarray:
        """The scores of a model that has not changed since are known."""
        import torch

        state = next(self.model.parameters())._version
        if self.kept is not None and self.kept[0] is self.model and self.kept[1] == state:
            return self.kept[2]
        model, images, texts = self.model, self.work.shape[0], []
        with torch.inference_mode():
            every = range(len(self.pictures))
            parts = [
                model.get_image_features(self.pixels(every[i : i + SCORE_BATCH])).pooler_output
                for i in range(0, len(every), SCORE_BATCH)
            ]
            texts = [
                model.get_text_features(self.distinct[i : i + SCORE_BATCH]).pooler_output
                for i in range(0, len(self.distinct), SCORE_BATCH)
            ]
            image, text = (
                x / x.norm(dim=-1, keepdim=True) for x in (torch.cat(parts), torch.cat(texts))
            )
            image = image.reshape(self.work.groups, images, -1)
            found = image @ text[torch.from_numpy(self.index).long()].transpose(1, 2)
            found = found * model.logit_scale.exp()
            if hasattr(model, "logit_bias"):
                found = found + model.logit_bias
        self.kept = (model, state, found.numpy())
        return self.kept[2]


def best_matching(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The caption of each image and the margin, for 2x2 or 1xk groups."""
    if scores.shape[1] == 1:
        ordered = np.sort(scores[:, 0], axis=1)
        return scores.argmax(axis=2), ordered[:, -1] - ordered[:, -2]
    lead = scores[:, 0, 0] + scores[:, 1, 1] - scores[:, 0, 1] - scores[:, 1, 0]
    return np.where(lead[:, None] > 0, [[0, 1]], [[1, 0]]), np.abs(lead)


def torch_parts(folder: str, work: Work, careful: bool) -> Parts:
    return {"all": (CarefulLoop if careful else PlainLoop)(folder, work).run}


def measure(work_of: Any, name: Name, repeats: int, tiny: bool, results: Results) -> None:
    """Add the rows of one model; the first run of each side does not count as a turn."""
    with TemporaryDirectory() as folder:
        writer = Side("weights", weight_writer, name, tiny, folder)
        work = work_of(name, writer.run("write")[1])
        writer.close()
        sides = [
            Side("ttm_jax", jax_parts, folder, work, huge_pages=True),
            Side("PyTorch, usual", torch_parts, folder, work, False),
            Side("PyTorch, careful", torch_parts, folder, work, True),
        ]
        (first, ours), (their_first, theirs), (careful_first, careful) = (
            side.run("all") for side in sides
        )
        if not ours["selected"] == theirs["selected"] == careful["selected"]:
            told = [found["selected"] for found in (ours, theirs, careful)]
            raise SystemExit(f"{name}: selected {told}")
        mine, usual, best = take_turns(sides, "all", repeats)
        peak, *peaks = [side.peak_gb for side in sides]
        label = f"{name}{' (tiny)' if tiny else ''}, {work.groups} groups of "
        label += "x".join(map(str, work.shape))
        make_console().print(f"{label}: selected {ours['selected']} on all sides")
        results.turns(label, "s, compiled; usual loop", mine, usual)
        results.turns(label, "s, compiled; careful loop", mine, best)
        results.turns(label, "s, first run; usual loop", [first], [their_first])
        results.turns(label, "s, first run; careful loop", [first], [careful_first])
        results.values(label, "peak memory, GB; usual loop", peak, peaks[0])
        results.values(label, "peak memory, GB; careful loop", peak, peaks[1])
        results.values(label, "s of the first run, compiling", ours["compile"])
        for side in sides:
            side.close()
        part = Side("ttm_jax", jax_parts, folder, work, huge_pages=True)
        part.run("last")
        short = [part.run("last")[0] for _ in range(repeats)]
        results.turns(label, f"s, compiled; {LAST} against all", short, mine)
        results.values(label, f"peak memory, GB; {LAST} against all", part.peak_gb, peak)
        part.close()


def main(
    models: tuple[Name, ...] = NAMES,
    groups: int | None = None,
    batch: int = 8,
    epochs: int = 1,
    repeats: int | None = None,
    quick: bool = False,
    json: Path | None = None,
) -> None:
    """Run both sides in alternating turns.

    Args:
        models: siglip-b16 (on 2x2), clip-b32 (on 1x4), with random weights.
        groups: number of groups in the dataset; 12 for SigLIP and 16 for CLIP if not given.
        batch: groups per training batch.
        epochs: epochs over the selected groups in each of the three iterations.
        repeats: whole runs of each side, after a first one that includes compilation; 1 for
            SigLIP and 3 for CLIP if not given.
        quick: use tiny models and few groups.
        json: file to write the rows to as well.
    """
    if quick:
        groups, batch, epochs = min(groups or 8, 8), min(batch, 4), min(epochs, 2)

    def work_of(name: Name, sizes: Sizes) -> Work:
        return Work(name, sizes, groups or GROUPS[name], batch, epochs)

    results = Results("whole runs")
    make_console().print(machine())
    for name in models:
        turns = repeats or (1 if quick else TURNS[name])
        measure(work_of, name, turns, quick, results)
    results.show("Test-Time Matching, three iterations")
    results.save(json)


if __name__ == "__main__":
    tyro.cli(main)
