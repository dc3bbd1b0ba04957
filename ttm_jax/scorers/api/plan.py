"""Which requests a dataset needs, what each will take, and the name of its answer in the cache."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ttm_jax.data.groups import GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.preprocess import ImageSource
from ttm_jax.scorers.api.images import ImageFacts, look_at, sent_size
from ttm_jax.scorers.api.settings import Question, Usage
from ttm_jax.scorers.api.tokens import image_tokens, text_tokens

_KEY_VERSION = 1


@dataclass(frozen=True)
class Job:
    """One request: does this image show this caption? `image` and `caption` index the pools."""

    key: str
    image: int
    caption: int
    run: int
    prompt: str
    image_sha256: str
    estimate: Usage


@dataclass(frozen=True, eq=False)
class Plan:
    """All requests of all runs, run by run and in each image by image."""

    dataset: GroupedDataset
    question: Question
    runs: int
    images: Sequence[ImageFacts]
    jobs: tuple[Job, ...]

    def requests(self) -> list[Job]:
        """The jobs that differ: an image that lies in two files is asked about once."""
        return list({job.key: job for job in reversed(self.jobs)}.values())[::-1]


def make_plan(
    dataset: GroupedDataset, question: Question, runs: int = 1, tokens_per_image: int | None = None
) -> Plan:
    """A request for every image and caption that share a group, once for each run."""
    if runs < 1:
        raise InputError(f"--runs is {runs}; expected at least 1")
    if tokens_per_image is not None and tokens_per_image < 1:
        raise InputError(f"--tokens-per-image is {tokens_per_image}; expected at least 1")
    if dataset.is_preprocessed or not all(isinstance(c, str) for c in dataset.captions):
        raise InputError(
            f"{dataset.name} holds arrays for a model of one's own; an API needs image files and "
            "captions as text"
        )
    facts = look_at(image_sources(dataset))
    captions = [str(c) for c in dataset.captions]
    question_key = _question_key(question)
    sizes = [tokens_per_image or _image_tokens(fact, question) for fact in facts]
    jobs = []
    for run in range(1, runs + 1):
        for image, caption in pairs(dataset):
            prompt = question.ask(captions[caption])
            jobs.append(
                Job(
                    key=_key(question_key, prompt, facts[image].sha256, run),
                    image=image,
                    caption=caption,
                    run=run,
                    prompt=prompt,
                    image_sha256=facts[image].sha256,
                    estimate=Usage(sizes[image] + text_tokens(prompt), 0, 1),
                )
            )
    return Plan(dataset, question, runs, facts, tuple(jobs))


def image_sources(dataset: GroupedDataset) -> Sequence[ImageSource]:
    assert not isinstance(dataset.images, np.ndarray)  # is_preprocessed was refused
    return dataset.images


def pairs(dataset: GroupedDataset) -> list[tuple[int, int]]:
    """The distinct (image, caption) of all groups, image by image."""
    found: set[tuple[int, int]] = set()
    for block in dataset.blocks:
        for row, column in zip(block.image_index, block.text_index, strict=True):
            found.update((int(i), int(t)) for i in row for t in column)
    return sorted(found)


def identity(plan: Plan) -> dict[str, Any]:
    """What makes two runs of an experiment the same, for `config.json` of the run folder."""
    content = hashlib.sha256()
    for block in plan.dataset.blocks:
        content.update(json.dumps([block.shape, *block.ids]).encode())
        content.update(block.image_index.tobytes() + block.text_index.tobytes())
    for text in (*plan.dataset.captions, *(fact.sha256 for fact in plan.images)):
        content.update(json.dumps(text).encode())
    return {
        "question": asdict(plan.question) | {"prompt": plan.question.template},
        "dataset": {
            "name": plan.dataset.name,
            "groups": len(plan.dataset),
            "sha256": content.hexdigest(),
        },
    }


def _image_tokens(fact: ImageFacts, question: Question) -> int:
    width, height = sent_size(fact.width, fact.height, question.max_image_size)
    return image_tokens(width, height, question.model, question.detail)


def _question_key(question: Question) -> dict[str, Any]:
    """All settings but the prompt's wording, which stands in every key with its caption."""
    fields = asdict(question) | {"base_url": question.address}
    del fields["prompt"]
    return fields


def _key(question: dict[str, Any], prompt: str, image_sha256: str, run: int) -> str:
    content = {
        "version": _KEY_VERSION,
        "question": question,
        "prompt": prompt,
        "image": image_sha256,
        "run": run,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
