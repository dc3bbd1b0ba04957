"""ledger.jsonl and matchings.jsonl: what was decided about every unit (a group, or an image)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.runs.read.fields import Fields, Place
from ttm_jax.runs.read.identity import shapes_of, units_of
from ttm_jax.runs.read.json_files import Lines

LEDGER, MATCHINGS = "ledger.jsonl", "matchings.jsonl"
Row = dict[str, Any]


@dataclass(frozen=True)
class Ledger:
    """Every iteration from 1 on: one row per unit, in the order of the run."""

    iterations: tuple[tuple[Row, ...], ...]
    notes: tuple[str, ...]


def read_ledger(
    folder: Path, identity: dict[str, Any], rows: list[Row], *, finished: bool
) -> Ledger:
    """What belongs to the iterations of `rows` (metrics.jsonl).

    A run writes the lines of an iteration after its metrics: unless it has finished, those of the
    last iteration may be missing.
    """
    path, last, units = folder / LEDGER, len(rows) - 1, units_of(identity)
    # The first line of all is written after the metrics of iteration 1.
    complete = _read_iterations(path, identity, rows) if last and path.exists() else []
    if len(complete) == last:
        return Ledger(tuple(complete), ())
    if len(complete) < last - 1 or finished:
        raise Place(path).error(
            f"{units} lines of iteration {len(complete) + 1} expected; the file is missing or cut"
        )
    note = f"{path} is not complete for iteration {last}: the run is still writing it"
    return Ledger(tuple(complete), (note,))


def _read_iterations(
    path: Path, identity: dict[str, Any], rows: list[Row]
) -> list[tuple[Row, ...]]:
    """The iterations that are complete, and no more than `rows` has."""
    complete: list[tuple[Row, ...]] = []
    part: list[Row] = []
    reader, units = _UnitReader(identity), units_of(identity)
    for found in Lines(path):
        iteration = found.integer("iteration", low=1)
        if iteration >= len(rows):
            break  # written since metrics.jsonl was read
        if iteration != len(complete) + 1:
            expected = f"{len(complete) + 1}: {units} lines for every iteration"
            raise found.refuse("iteration", expected)
        row = reader.read(found, len(part), part_of=complete)
        part.append({**row, "selected": found.boolean("selected"), "right": _right(found)})
        if len(part) == units:
            _check_selected(found, part, rows[iteration])
            complete.append(tuple(part))
            part = []
    return complete


def read_matchings(folder: Path, identity: dict[str, Any]) -> list[Row]:
    """What the final model matches: one row per unit."""
    reader, lines = _UnitReader(identity), Lines(folder / MATCHINGS)
    rows: list[Row] = []
    for found in lines:
        row = reader.read(found, len(rows), part_of=[])
        if found.known("runner_up"):
            row["runner_up"] = reader.caption(found, "runner_up")
        rows.append({**row, "unique": found.boolean("unique")})
    if len(rows) != units_of(identity):
        raise lines.place.error(f"{len(rows)} lines; expected {units_of(identity)}")
    return rows


class _UnitReader:
    """Of groups {"group", "matching", "margin"}, of pairs {"image", "caption", "similarity"}."""

    def __init__(self, identity: dict[str, Any]) -> None:
        self._is_global = identity["config"]["matching"] == "global"
        self._shapes = list(shapes_of(identity).values())
        self._units = units_of(identity)

    def read(self, found: Fields, place: int, part_of: list[tuple[Row, ...]]) -> Row:
        """The row of the unit at `place`; its name must be that of earlier iterations."""
        if place >= self._units:
            raise found.place.error(f"more than {self._units} units; a line appears twice")
        if self._is_global:
            return self._read_pair(found, place)
        group = found.string("group")
        if part_of and group != part_of[0][place]["group"]:
            raise found.refuse("group", f"{part_of[0][place]['group']!r}, as in iteration 1")
        images, captions = self._shape(place)
        return {
            "group": group,
            "matching": found.integers("matching", -1, captions - 1, images),
            "margin": found.known_number("margin", low=0.0),
        }

    def _read_pair(self, found: Fields, place: int) -> Row:
        if found.integer("image") != place:
            raise found.refuse("image", f"{place}: one line per image, in their order")
        return {
            "image": place,
            "caption": self.caption(found, "caption"),
            "similarity": found.known_number("similarity"),
        }

    def caption(self, found: Fields, key: str) -> int:
        """The index of a caption of a run without groups, or -1."""
        _, _, captions = self._shapes[0]
        return found.integer(key, -1, captions - 1)

    def _shape(self, place: int) -> tuple[int, int]:
        for groups, images, captions in self._shapes:
            if place < groups:
                return images, captions
            place -= groups
        raise AssertionError(place)


def _right(found: Fields) -> bool | None:
    return found.boolean("right") if found.get("right") is not None else None


def _check_selected(found: Fields, part: list[Row], row: Row) -> None:
    selected = sum(unit["selected"] for unit in part)
    if selected != row["selected"]:
        raise found.place.error(
            f"iteration {row['iteration']} selects {selected} units here; metrics.jsonl says "
            f"{row['selected']}"
        )


def unit_names(ledger: Ledger) -> Iterator[str]:
    """The ids of the groups, as far as the ledger has them."""
    if ledger.iterations:
        yield from (row["group"] for row in ledger.iterations[0] if "group" in row)
