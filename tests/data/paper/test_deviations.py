"""Whether the paper's ± divides by n or by n - 1: which four whole counts could produce it."""

import math
from itertools import combinations_with_replacement

import pytest

from ttm_jax.data.paper import paper_results

RUNS = 4
ROUNDING = 0.005 + 1e-9  # the tables print two decimals


def can_be(mean: float, std: float, groups: int, divisor: int) -> bool:
    """Whether four runs of whole counts out of `groups` print as `mean ± std`."""
    # The largest distance of one value from the mean of four, and a group for the rounding.
    reach = math.ceil((std + ROUNDING) * math.sqrt(RUNS) * groups / 100) + 1
    middle = round(mean * groups / 100)
    counts = range(max(0, middle - reach), min(groups, middle + reach) + 1)
    for low, *rest in combinations_with_replacement(counts, RUNS - 1):
        for total in _totals(mean, groups):
            high = total - low - sum(rest)
            if rest[-1] <= high <= groups and _deviates((low, *rest, high), std, groups, divisor):
                return True
    return False


def _totals(mean: float, groups: int) -> range:
    """Sums of four counts whose mean rounds to the printed one."""
    unit = RUNS * groups / 100
    return range(math.ceil((mean - ROUNDING) * unit), math.floor((mean + ROUNDING) * unit) + 1)


def _deviates(counts: tuple[int, ...], std: float, groups: int, divisor: int) -> bool:
    mean = sum(counts) / RUNS
    found = math.sqrt(sum((count - mean) ** 2 for count in counts) / divisor)
    return abs(100 * found / groups - std) <= ROUNDING


def test_the_enumeration_finds_runs_that_it_is_given():
    """89.44 ± 0.96 of 135 groups is 119, 120, 122 and 122, and no other divisor gives it."""
    assert can_be(89.44, 0.96, 135, RUNS)
    assert not can_be(89.44, 0.96, 135, RUNS - 1)
    sample = 100 / 135 * math.sqrt(sum((x - 120.75) ** 2 for x in (119, 120, 122, 122)) / 3)
    assert can_be(89.44, round(sample, 2), 135, RUNS - 1)


def test_ttm_results_divide_by_n():
    trained = [row for row in paper_results() if row.ttm is not None]
    assert len(trained) == 30
    misfits = [r.dataset for r in trained if not can_be(r.ttm, r.ttm_std, r.groups, RUNS)]
    assert misfits == ["whatsup_b_front_behind"]
    sample = [r for r in trained if can_be(r.ttm, r.ttm_std, r.groups, RUNS - 1)]
    assert len(sample) == 10


def test_so_do_those_of_gpt():
    numbers = [
        (percent, std, row.groups)
        for row in paper_results()
        if row.model == "gpt_4_1"
        for percent, std in ((row.raw, row.raw_std), (row.simple_match, row.simple_match_std))
    ]
    assert len(numbers) == 6
    assert all(can_be(*number, RUNS) for number in numbers)
    assert sum(can_be(*number, RUNS - 1) for number in numbers) == 1  # 68.15 ± 0.00


@pytest.mark.parametrize("row", paper_results(), ids=lambda r: f"{r.table}-{r.dataset}-{r.model}")
def test_only_means_have_deviations(row):
    means = row.raw_count is None
    assert (row.raw_std is not None) == means
    assert (row.simple_match_std is not None) == means
    assert (row.ttm_std is None) == (row.ttm is None)
