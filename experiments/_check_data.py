"""The groups of a benchmark for the check-up: as published and, beside them, built otherwise."""

import hashlib
from dataclasses import dataclass, replace

from experiments._check_choices import Groups, Settings
from experiments._flags import Flags
from experiments._load import load_or_fetch
from ttm_jax.data.benchmarks.catalogue import Benchmark, find_benchmark
from ttm_jax.data.groups import Block, Group, GroupedDataset
from ttm_jax.inputs.image_decode import encoded_bytes, key_of
from ttm_jax.inputs.vqa_prompts import fill
from ttm_jax.runs.identity import dataset_checksum


@dataclass(frozen=True, eq=False)
class Layouts:
    """Several ways to build the groups, over the same images and captions.

    The first block of `dataset` has the groups of all ways, one way after the other. A second one,
    if there is one, is a single group of all images and captions, in the published order.
    """

    dataset: GroupedDataset
    ways: dict[Groups, slice]
    """Where the groups of each way are."""

    @property
    def published(self) -> Block:
        """The groups as the benchmark has them, without the other ways."""
        block, place = self.dataset.blocks[0], self.ways["published"]
        assert block.truth is not None  # benchmarks have it
        return replace(
            block,
            ids=block.ids[place],
            image_index=block.image_index[place],
            text_index=block.text_index[place],
            truth=block.truth[place],
            tags=block.tags[place],
        )

    def without_inputs(self) -> "Layouts":
        """The groups alone: images that were read from a table are large."""
        return Layouts(replace(self.dataset, images=(), captions=()), self.ways)

    def checksum(self) -> str:
        """Of everything that is scored: the encoded images, the captions and the groups."""
        value = hashlib.sha256(dataset_checksum(self.dataset).encode())
        for image in self.dataset.images:
            value.update(hashlib.sha256(encoded_bytes(image) or b"").digest())
        return value.hexdigest()[:32]


def load_layouts(name: str, flags: Flags, settings: Settings, needs_whole: bool) -> Layouts:
    """Read the benchmark, fetching it first if it is missing and that is allowed."""
    flags = replace(flags, exif=settings.exif)
    benchmark = find_benchmark(name)
    ways: dict[Groups, list[Group]] = {"published": _groups(load_or_fetch(name, flags).dataset)}
    for way, groups in _other_ways(benchmark, flags, ways["published"]).items():
        if _pairs(groups) != _pairs(ways["published"]):
            ways[way] = groups
    every = [_with_template(group, settings.template) for part in ways.values() for group in part]
    dataset = GroupedDataset.from_groups(every, name)
    places: dict[Groups, slice] = {}
    start = 0
    for way, groups in ways.items():
        places[way] = slice(start, start + len(groups))
        start += len(groups)
    layouts = Layouts(dataset, places)
    if needs_whole:
        alone = replace(dataset, blocks=(layouts.published,))
        dataset = replace(dataset, blocks=(*dataset.blocks, *alone.ungrouped().blocks))
    return Layouts(dataset, places)


def _other_ways(
    benchmark: Benchmark, flags: Flags, published: list[Group]
) -> dict[Groups, list[Group]]:
    if benchmark.source == "whatsup" and benchmark.part == "a":
        released = load_or_fetch(benchmark.name, flags, correction=False)
        return {"as_released": _groups(released.dataset)}
    if benchmark.source == "mmvp_vlm":
        return {"by_question_id": _by_question_id(published)}
    return {}


def _by_question_id(published: list[Group]) -> list[Group]:
    """MMVP's rows in the order of their numbers, whatever the order in the file."""
    rows = sorted(
        (int(number), group.images[place], group.captions[place])
        for group in published
        for place, number in enumerate(group.id.split("-"))
    )
    return [
        Group(f"{a[0]}-{b[0]}", (a[1], b[1]), (a[2], b[2]), (0, 1))
        for a, b in zip(rows[::2], rows[1::2], strict=True)
    ]


def _groups(dataset: GroupedDataset) -> list[Group]:
    found = []
    for block in dataset.blocks:
        assert block.truth is not None
        for row, identity in enumerate(block.ids):
            images = tuple(dataset.images[i] for i in block.image_index[row])
            captions = tuple(str(dataset.captions[t]) for t in block.text_index[row])
            found.append(Group(identity, images, captions, tuple(block.truth[row].tolist())))
    return found


def _pairs(groups: list[Group]) -> list[tuple[object, ...]]:
    """What a group is made of, whatever it is called."""
    return [(*(key_of(image) for image in group.images), *group.captions) for group in groups]


def _with_template(group: Group, template: str) -> Group:
    return replace(group, captions=tuple(fill(template, caption) for caption in group.captions))
