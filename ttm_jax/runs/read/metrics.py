"""metrics.jsonl and summary.json: what a run measured after each iteration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttm_jax.matching.metric_names import METRICS, headline
from ttm_jax.runs.read.fields import LARGEST, Fields
from ttm_jax.runs.read.identity import units_of
from ttm_jax.runs.read.json_files import Lines, read_optional_object

NAME = "metrics.jsonl"
_PARTS = ("raw", "final")


@dataclass(frozen=True)
class Measured:
    """One row per finished iteration (row 0: the unadapted model), and what a reader should know.

    `finished` says that the run has written its summary: nothing will be added.
    """

    rows: list[dict[str, Any]]
    notes: tuple[str, ...]
    finished: bool


def read_metrics(folder: Path, identity: dict[str, Any]) -> Measured:
    """The rows that are complete; none if the run has not got that far."""
    # The summary first: if it is there, everything that it sums up was there before it.
    summary = read_optional_object(folder / "summary.json")
    rows: list[dict[str, Any]] = []
    lines = Lines(folder / NAME)
    for found in lines:
        rows.append(_read_row(found, identity, rows))
    notes = []
    if lines.cut is not None:
        notes.append(
            f"{folder / NAME} line {lines.cut} is incomplete and was left out: the run is still "
            "writing it, or the file was cut"
        )
    if rows and summary.values:
        notes += _check_summary(summary, identity, rows)
    return Measured(rows, tuple(notes), bool(summary.values))


def _read_row(
    found: Fields, identity: dict[str, Any], before: list[dict[str, Any]]
) -> dict[str, Any]:
    iteration = found.integer("iteration")
    if iteration != len(before):
        raise found.refuse("iteration", f"{len(before)}: one line per iteration, in their order")
    if iteration > identity["config"]["iterations"]:
        raise found.refuse("iteration", f"at most {identity['config']['iterations']} (config.json)")
    row: dict[str, Any] = {
        **found.values,
        "iteration": iteration,
        "metrics": read_rates(found.nested("metrics")),
        "seconds": found.number("seconds", low=0.0),
    }
    if found.known("scores"):
        found.string("scores")
    if found.known("tau_1"):
        found.number("tau_1")
    row |= read_known(found)
    _check_names(found, row, identity, before)
    if not iteration:
        return row
    units = units_of(identity)
    if found.integer("units", low=1) != units:
        raise found.refuse("units", f"{units}, as config.json says")
    return row | {
        "tau": found.number("tau"),
        "units": units,
        "selected": found.integer("selected", high=units),
        "precision": found.known_number("precision", 0.0, 1.0),
        "loss": found.known_number("loss"),
        "losses": found.numbers("losses"),
        "lr": found.number("lr", low=0.0),
    }


def read_rates(found: Fields) -> dict[str, dict[str, Any]]:
    """Metrics by name, each with percent, count, of and chance."""
    rates: dict[str, dict[str, Any]] = {}
    for name in found.values:
        if name not in METRICS:
            raise found.place.error(
                f"{found.path(name)} is not a metric; expected some of {', '.join(METRICS)}"
            )
        rate = found.nested(name)
        of = rate.integer("of", low=1)
        count = rate.integer("count", high=of)
        percent = rate.number("percent", 0.0, 100.0)
        if abs(percent - 100 * count / of) > 1e-6:
            raise rate.refuse("percent", f"{100 * count / of:.6g}, which is {count} of {of}")
        chance = rate.number("chance", 0.0, 100.0)
        rates[name] = {"percent": percent, "count": count, "of": of, "chance": chance}
    return rates


def read_known(found: Fields) -> dict[str, Any]:
    """What a row says without labels; older runs have none of it."""
    known: dict[str, Any] = {"estimate": None, "grounded": None, "alarm": None}
    if found.known("estimate"):
        estimate = found.nested("estimate")
        known["estimate"] = {
            "tau": estimate.number("tau"),
            "p_value": estimate.number("p_value", 0.0, 1.0),
            "go_ahead": estimate.boolean("go_ahead"),
            **{name: _read_interval(estimate.nested(name)) for name in ("precision", "accuracy")},
        }
    if found.known("grounded"):
        grounded = found.nested("grounded")
        known["grounded"] = {
            "blind": grounded.number("blind", 0.0, 1.0),
            "gain": grounded.number("gain", -1.0, 1.0),
        }
    if found.known("alarm"):
        alarm = found.nested("alarm")
        known["alarm"] = {"back_to": alarm.integer("back_to"), "why": alarm.string("why")}
    if found.known("assignment"):
        assignment = found.nested("assignment")
        known["assignment"] = {
            "proved": assignment.boolean("proved"),
            "gap": assignment.number("gap", low=0.0),
            **{name: assignment.integer(name) for name in ("violations", "rounds", "pairs")},
        }
    if found.known("captions"):
        found.number("captions", low=0.0)
    return known


def _read_interval(found: Fields) -> dict[str, float]:
    low = found.number("low", 0.0, 1.0)
    value = found.number("value", low, 1.0)
    return {"value": value, "low": low, "high": found.number("high", value, 1.0)}


def _check_names(
    found: Fields, row: dict[str, Any], identity: dict[str, Any], before: list[dict[str, Any]]
) -> None:
    """Every row has the same metrics, and one of them judges the run; or none has any."""
    names = row["metrics"].keys()
    if before and names != before[0]["metrics"].keys():
        first = ", ".join(before[0]["metrics"]) or "none"
        raise found.place.error(
            f"metrics has {', '.join(names) or 'none'}; expected those of line 1, {first}"
        )
    main = headline(identity["config"]["matching"])
    if names and main not in names:
        raise found.place.error(f"metrics.{main} is missing")


def _check_summary(
    found: Fields, identity: dict[str, Any], rows: list[dict[str, Any]]
) -> list[str]:
    """It repeats what other files say. A run that is being resumed may be behind its summary."""
    if "seed" in found and found.integer("seed") != identity["seed"]:
        raise found.refuse("seed", f"{identity['seed']}, as config.json says")
    if "iterations" in found and found.integer("iterations") != identity["config"]["iterations"]:
        raise found.refuse("iterations", f"{identity['config']['iterations']}, as config.json says")
    if "seconds" in found:
        found.number("seconds", 0.0, LARGEST)
    for part in _PARTS:
        if part in found:
            said = read_rates(found.nested(part))
            if part == "final" and rows[-1]["iteration"] < identity["config"]["iterations"]:
                return [
                    f"{found.place.path} says that the run has finished, but {NAME} ends at "
                    f"iteration {rows[-1]['iteration']}: it is being resumed, or a file was cut"
                ]
            if said != rows[0 if part == "raw" else -1]["metrics"]:
                raise found.place.error(f"{part} is not what {NAME} says")
    return []
