"""The paper's settings and results as typed rows; where they come from is in README.md here."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from ttm_jax.config import Matching, Schedule, TauUnit


@dataclass(frozen=True)
class PaperSetting:
    """One row of the hyperparameter tables."""

    table: str
    matching: Matching
    dataset: str
    model: str
    tau_1: float
    tau_T: float
    tau_unit: TauUnit
    schedule: Schedule
    lr: float
    iterations: int
    epochs: int
    batch_groups: int
    augment: bool
    keep_opt_state: bool


@dataclass(frozen=True)
class PaperResult:
    """One row of the result tables: percentages, and the counts behind those that are counts.

    `iterations` is None where nothing was trained. A number that the paper does not give is None;
    for one image with k captions SimpleMatch equals the raw score and has no column of its own.
    Standard deviations divide by n (four runs); only GPT-4.1 has them for raw and SimpleMatch.
    """

    table: str
    matching: Matching
    dataset: str
    model: str
    iterations: int | None
    groups: int
    raw: float
    raw_count: int | None
    simple_match: float | None
    simple_match_count: int | None
    ttm: float | None
    ttm_std: float | None
    raw_std: float | None = None
    """Only for GPT-4.1, whose raw scores and SimpleMatch are means over four runs."""
    simple_match_std: float | None = None


@cache
def paper_settings() -> tuple[PaperSetting, ...]:
    return tuple(
        PaperSetting(
            table=row["table"],
            matching=cast(Matching, row["matching"]),
            dataset=row["dataset"],
            model=row["model"],
            tau_1=float(row["tau_1"]),
            tau_T=float(row["tau_T"]),
            tau_unit=cast(TauUnit, row["tau_unit"]),
            schedule=cast(Schedule, row["schedule"]),
            lr=float(row["lr"]),
            iterations=int(row["iterations"]),
            epochs=int(row["epochs"]),
            batch_groups=int(row["batch_groups"]),
            augment=_yes(row["augment"]),
            keep_opt_state=_yes(row["keep_opt_state"]),
        )
        for row in _rows("hyperparameters.csv")
    )


@cache
def paper_results() -> tuple[PaperResult, ...]:
    return tuple(
        PaperResult(
            table=row["table"],
            matching=cast(Matching, row["matching"]),
            dataset=row["dataset"],
            model=row["model"],
            iterations=_int(row["iterations"]),
            groups=int(row["groups"]),
            raw=float(row["raw"]),
            raw_count=_int(row["raw_count"]),
            simple_match=_float(row["simple_match"]),
            simple_match_count=_int(row["simple_match_count"]),
            ttm=_float(row["ttm"]),
            ttm_std=_float(row["ttm_std"]),
            raw_std=_float(row["raw_std"]),
            simple_match_std=_float(row["simple_match_std"]),
        )
        for row in _rows("results.csv")
    )


def find_result(
    dataset: str, model: str, matching: Matching = "group", iterations: int | None = None
) -> PaperResult | None:
    """The paper's row for such a run, None if it has none.

    Without `iterations`, the row of the main tables; with it, that of the table of fewer
    iterations where the number is not the main one.
    """
    for row in paper_results():
        if (row.dataset, row.model, row.matching) == (dataset, model, matching) and (
            iterations in (None, row.iterations)
        ):
            return row
    return None


def _rows(name: Literal["hyperparameters.csv", "results.csv"]) -> Iterator[dict[str, str]]:
    yield from csv.DictReader((files(__name__) / name).read_text(encoding="utf-8").splitlines())


def _yes(text: str) -> bool:
    return {"yes": True, "no": False}[text]


def _int(text: str) -> int | None:
    return int(text) if text else None


def _float(text: str) -> float | None:
    return float(text) if text else None
