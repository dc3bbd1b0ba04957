"""Scores of one model on one benchmark, made once for each way of scoring and kept on disk."""

import json
import warnings
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import numpy as np
import PIL
from flax.traverse_util import flatten_dict

import ttm_jax
from experiments._check_choices import Settings
from experiments._check_data import Layouts, load_layouts
from experiments._check_models import with_settings
from experiments._check_rows import Subject
from experiments._flags import Flags
from ttm_jax.config import TTMConfig
from ttm_jax.files import write_atomic
from ttm_jax.hosts.exchange import agree_on
from ttm_jax.hosts.this_host import is_first
from ttm_jax.inputs.tokenize import CaptionWarning
from ttm_jax.report.checkup.measure import Scored
from ttm_jax.runs.identity import array_checksum, checksum, differences
from ttm_jax.training import sharding

Scores = tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Ways:
    """The scores of all ways to build the groups, and of all images and captions if asked for."""

    layouts: Layouts
    scores: Scores

    def scored(self, settings: Settings) -> Scored:
        """The way that the settings ask for; the published one where the other is the same."""
        way = settings.groups if settings.groups in self.layouts.ways else "published"
        place = self.layouts.ways[way]
        truth = self.layouts.dataset.blocks[0].truth
        assert truth is not None  # benchmarks have it
        truth = truth[place]
        if settings.groups == "exchanged":
            truth = truth[:, ::-1].copy()
        whole = self.scores[1][0] if len(self.scores) > 1 else None
        return Scored(self.scores[0][place], truth, whole, settings.ties)

    def ids(self, settings: Settings) -> tuple[str, ...]:
        """What the groups are called; both names where others are built from the same images."""
        published = self.layouts.published.ids
        if settings.groups not in self.layouts.ways:
            return published
        ids = self.layouts.dataset.blocks[0].ids[self.layouts.ways[settings.groups]]
        pairs = zip(published, ids, strict=True)
        return tuple(a if a == b else f"{a} (then {b})" for a, b in pairs)


class Scorer:
    """A model on a benchmark."""

    def __init__(
        self,
        subject: Subject,
        model: Any,
        flags: Flags,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self.subject, self.model, self.flags, self.say = subject, model, flags, say
        self.notes: list[str] = []
        self.identity: dict[str, Any] = {}
        self._folder = folder
        self._known: dict[Settings, Ways] = {}
        self._by_inputs: dict[str, Scores] = {}

    def ways(self, settings: Settings, name: str = "") -> Ways:
        """Scores with these settings: from memory, from disk, or made now.

        `name` says to the user what is different; empty for the usual settings.
        """
        settings = settings.of_scores
        if settings not in self._known:
            self._known[settings] = self._load_or_score(settings, name)
        return self._known[settings]

    def _load_or_score(self, settings: Settings, name: str) -> Ways:
        subject = self.subject
        layouts = load_layouts(subject.dataset, self.flags, settings, subject.needs_whole)
        identity = self._identity(layouts, settings)
        self.identity = self.identity or identity  # of the first, the usual settings
        title = f"{subject.dataset}, {subject.model}" + (f", {name}" if name else "")
        path = self._path(settings)
        stored, reason = _read(path, identity, layouts) if self.flags.resume else (None, "")
        agree_on("scores of an earlier call", stored is not None)
        if stored is not None:
            self.say(f"{title}: scored before, {path} has the scores")
            self.notes = self.notes or list(stored.notes)
            return Ways(layouts.without_inputs(), stored.scores)
        if reason:
            self.say(f"{title}: scored again, {reason}")
        self.say(f"{title}: scoring {len(layouts.published)} groups")
        scores = self._score(layouts, settings, name)
        if is_first():
            _write(path, identity, _Stored(scores, tuple(self.notes)))
        return Ways(layouts.without_inputs(), scores)

    def _score(self, layouts: Layouts, settings: Settings, name: str) -> Scores:
        """Nothing is computed twice: other settings that give the same inputs have the scores."""
        model = with_settings(self.model, settings, layouts.dataset)
        # One group at a time: nothing is trained, and the plan for a step asks.
        config = TTMConfig(
            dtype=settings.dtype,
            precision=settings.precision,
            placement=self.flags.placement or "replicated",
            batch_groups=1,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CaptionWarning)
            task = model.bind(layouts.dataset, config, sharding.make_mesh(), 0)
        for warning in caught:
            if not issubclass(warning.category, CaptionWarning):
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
            elif not name:
                self.notes.append(str(warning.message))
        inputs = array_checksum(*map(sharding.to_host, jax.tree.leaves(task.data)))
        key = f"{inputs} {settings.dtype} {settings.precision} {task.scoring}"
        if key not in self._by_inputs:
            self._by_inputs[key] = task.score(task.initial.trained)
        return self._by_inputs[key]

    def _identity(self, layouts: Layouts, settings: Settings) -> dict[str, Any]:
        return {
            "model": {"source": self.model.source, "checksum": self._model_checksum},
            "data": layouts.checksum(),
            "settings": asdict(settings),
            "versions": {
                "ttm_jax": ttm_jax.__version__,
                "jax": jax.__version__,
                "Pillow": PIL.__version__,
            },
            "device": jax.devices()[0].device_kind,
        }

    @cached_property
    def _model_checksum(self) -> str:
        return checksum(flatten_dict(self.model.params, sep="/"))

    def _path(self, settings: Settings) -> Path:
        """One file for each way of scoring; the content says whose scores they are."""
        said = sha256(json.dumps(asdict(settings), sort_keys=True).encode()).hexdigest()[:8]
        whole = "_whole" if self.subject.needs_whole else ""
        return self._folder / f"{self.subject.dataset}_{self.subject.model}{whole}_{said}.npz"


@dataclass(frozen=True, eq=False)
class _Stored:
    scores: Scores
    notes: tuple[str, ...]
    """About the captions, with the usual settings."""


def _write(path: Path, identity: dict[str, Any], stored: _Stored) -> None:
    arrays: dict[str, Any] = {f"block_{i}": block for i, block in enumerate(stored.scores)}
    arrays["identity"] = np.asarray(json.dumps(identity))
    arrays["notes"] = np.asarray(json.dumps(stored.notes))
    write_atomic(path, partial(np.savez, **arrays))


def _read(path: Path, identity: dict[str, Any], layouts: Layouts) -> tuple[_Stored | None, str]:
    """Scores of an earlier call, or why they cannot be used; neither if there are none."""
    if not path.exists():
        return None, ""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            before, notes = json.loads(str(file["identity"])), json.loads(str(file["notes"]))
            scores = tuple(file[f"block_{i}"] for i in range(len(layouts.dataset.blocks)))
    except (OSError, KeyError, ValueError, BadZipFile, EOFError, zlib.error) as error:
        return None, f"{path} cannot be read ({type(error).__name__})"
    changes = list(differences(before, identity))
    if changes:
        return None, f"it is not the same as before: {'; '.join(changes)}"
    shapes = [(len(block), *block.shape) for block in layouts.dataset.blocks]
    if [x.shape for x in scores] != shapes or not all(np.isfinite(x).all() for x in scores):
        return None, f"{path} does not hold the scores of these groups"
    return _Stored(scores, tuple(map(str, notes))), ""


def same_scores(first: Ways, second: Ways) -> bool:
    """Whether two ways of scoring give the same numbers, bit for bit."""
    pairs = zip(first.scores, second.scores, strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def base_settings(flags: Flags) -> Settings:
    """What we do, with what the flags change."""
    usual = Settings(exif=flags.exif)
    return replace(
        usual, dtype=flags.dtype or usual.dtype, precision=flags.precision or usual.precision
    )
