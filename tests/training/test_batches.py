"""Which units make a batch, and in which width each batch is computed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.training.batches import batch_widths, plan_batches


def made(selected: int, batch: int, epochs: int, units: int):
    rows = np.arange(selected, dtype=np.int32)
    return plan_batches(rows, batch, epochs, np.ones, max_units=units, rng=np.random.default_rng(0))


LARGE, SMALL = 1e13, 1e10  # operations of a step: SigLIP-B16 with 100 pairs, a small model


@pytest.mark.parametrize(
    ("batch", "epochs", "flops", "platform", "expected"),
    [
        (50, 200, LARGE, "cpu", (50, 25, 13)),
        (50, 1, LARGE / 4, "cpu", (50, 25)),
        (50, 200, SMALL, "cpu", (50,)),
        (50, 1000, SMALL, "cpu", (50, 25, 13)),
        (50, 200, LARGE, "tpu", (50,)),
        (50, 200, 100 * LARGE, "gpu", (50, 25, 13)),
        (3, 200, LARGE, "cpu", (3, 2, 1)),
        (1, 200, LARGE, "cpu", (1,)),
    ],
)
def test_narrow_widths_where_they_save_more_than_compiling(
    batch, epochs, flops, platform, expected
):
    assert batch_widths(batch, epochs, flops, platform) == expected


@given(
    selected=st.integers(0, 40),
    batch=st.integers(1, 12),
    epochs=st.integers(1, 4),
    run_epochs=st.sampled_from((0, 1, 100)),
    most=st.integers(1, 20),
)
def test_stretches_take_every_step_once_in_the_narrowest_width(
    selected, batch, epochs, run_epochs, most
):
    plan, widths = made(selected, batch, epochs, 40), batch_widths(batch, run_epochs, LARGE, "cpu")
    step, seen = 0, []
    while step < plan.steps:
        width, stop = plan.stretch(step, most, widths)
        assert step < stop <= step + most
        for count in plan.valid[step:stop].sum(axis=1):
            assert width == min(w for w in widths if w >= count)
        # A step looks at the first units of a row only, so nothing valid may stand beyond them.
        assert not plan.valid[step:stop, width:].any()
        seen += range(step, stop)
        step = stop
    assert seen == list(range(plan.steps))
    units = plan.rows[: plan.steps][plan.valid[: plan.steps]]
    assert np.bincount(units, minlength=selected).tolist() == [epochs] * selected


@given(selected=st.integers(1, 200), batch=st.integers(4, 60))
def test_at_most_a_quarter_of_the_last_batch_and_a_half_of_its_units_is_padding(selected, batch):
    plan, widths = made(selected, batch, 1, 200), batch_widths(batch, 200, LARGE, "cpu")
    last = int(plan.valid[plan.steps - 1].sum())
    padding = plan.stretch(plan.steps - 1, 1, widths)[0] - last
    if last > -(-batch // 4):
        assert padding <= batch // 2
        assert padding < last
    else:
        assert padding < -(-batch // 4)
