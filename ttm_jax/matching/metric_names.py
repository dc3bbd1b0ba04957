"""Names and descriptions of the metrics, and which one is the headline. Has no heavy imports."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A row of `METRICS`.

    `label` is the name in tables and charts; `meaning` says when a decision counts as correct.
    `one_way` and `by_caption` replace the meaning for non-square groups and for groups with more
    images than captions: those are evaluated from their smaller side only (paper, App. A).
    `headline_of` is the kind of matching whose runs use this metric as their headline.
    """

    label: str
    meaning: str
    one_way: str = ""
    by_caption: str = ""
    headline_of: Literal["group", "global"] | None = None

    def meaning_for(self, shape: tuple[int, int]) -> str:
        """When a decision counts as correct, for groups of this many images and captions."""
        images, texts = shape
        if images > texts and self.by_caption:
            return self.by_caption
        return self.one_way if images != texts and self.one_way else self.meaning


METRICS = {
    "text_score": Metric("TextScore", "each image prefers its own caption"),
    "image_score": Metric("ImageScore", "each caption prefers its own image"),
    "group_score": Metric(
        "GroupScore",
        "both: what the benchmarks report",
        one_way="each true pair wins, one way",
    ),
    "group_match": Metric("GroupMatch", "the group's best matching is true", headline_of="group"),
    "individual_match": Metric(
        "individual match",
        "one image finds its caption alone",
        by_caption="one caption finds its image alone",
    ),
    "global_match": Metric(
        "global match", "the best assignment has the pair", headline_of="global"
    ),
    "row_argmax": Metric("row argmax", "the image prefers its own caption"),
}


def headline(matching: str) -> str:
    """The headline metric of runs with this kind of matching ("group" or "global")."""
    return next(name for name, metric in METRICS.items() if metric.headline_of == matching)


def headline_in(measured: Container[str]) -> str:
    """The headline among the metrics of a run; only global matching has its own."""
    return headline("global" if headline("global") in measured else "group")
