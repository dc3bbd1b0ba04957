"""The search for the choice that explains counts: what is tried, and in which order."""

import pytest

from ttm_jax.report.checkup.search import Attempt, Choice, explain

TIES = Choice("ties", (("ties", "right"),), rescores=False)
GROUPS = Choice("groups", (("groups", "other"),), rescores=False)
EXIF = Choice("exif", (("exif", "on"),))
RESIZE = Choice("resize", (("resize", "other"),))
BLUR = Choice("blur", (("resize", "blurred"),))
ALL = (EXIF, RESIZE, BLUR, TIES, GROUPS)
USUAL = {"raw": 100, "simple_match": 200}
EFFECT = {"ties": 0, "groups": 3, "exif": 5, "resize": 10, "blur": 20}


class Trials:
    """Each choice adds its effect to a count of 100; remembers what was tried."""

    def __init__(self):
        self.tried = []

    def __call__(self, choices):
        self.tried.append(tuple(choice.name for choice in choices))
        total = sum(EFFECT[choice.name] for choice in choices)
        return Attempt(choices, {"raw": 100 + total, "simple_match": 200}, total != 0)


@pytest.fixture
def trials():
    return Trials()


def names(attempts):
    return [attempt.name for attempt in attempts]


def test_a_choice_that_needs_no_scores_ends_the_search(trials):
    search = explain({"raw": 103}, USUAL, ALL, trials)
    assert names(search.found) == ["groups"]
    assert trials.tried == [("ties",), ("groups",)]
    assert search.untried.endswith("exif, resize, blur")


def test_every_single_choice_that_fits_is_named(trials):
    twin = Choice("exif", (("twin", 1),))
    search = explain({"raw": 105}, USUAL, (*ALL, twin), trials)
    assert names(search.found) == ["exif", "exif"]
    assert len(trials.tried) == 6
    assert search.untried == ""


def test_all_counts_have_to_fit(trials):
    search = explain({"raw": 105, "simple_match": 201}, USUAL, ALL, trials)
    assert search.found == ()


def test_pairs_only_if_no_single_choice_explains(trials):
    search = explain({"raw": 115}, USUAL, ALL, trials)
    assert names(search.found) == ["exif + resize"]
    pairs = [pair for pair in trials.tried if len(pair) == 2]
    # the effects of the first pair with new scores add up to what is missing
    assert pairs[3:] == [("exif", "resize")]
    # without new scores first; ties had no effect, and resize and blur exclude each other
    assert all("groups" in pair for pair in pairs[:3])
    assert not any("ties" in pair or set(pair) == {"resize", "blur"} for pair in pairs)


def test_a_pair_with_old_scores(trials):
    search = explain({"raw": 123}, USUAL, ALL, trials)
    assert names(search.found) == ["groups + blur"]
    assert all("groups" in pair for pair in trials.tried if len(pair) == 2)


def test_the_number_of_pairs_is_limited(trials):
    search = explain({"raw": 999}, USUAL, ALL, trials, most_pairs=1)
    assert search.found == ()
    assert search.untried == "1 of 5 pairs of choices were not tried"
    assert sum(len(pair) == 2 for pair in trials.tried) == 4


def test_what_cannot_be_tried_is_passed_over():
    def attempt(choices):
        return Attempt(choices, None, note="no such file")

    search = explain({"raw": 1}, USUAL, ALL, attempt)
    assert search.found == ()
    assert len(search.attempts) == len(ALL)
