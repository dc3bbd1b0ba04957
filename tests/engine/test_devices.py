"""Estimates for machines that are not at hand."""

from dataclasses import replace

import pytest

from ttm_jax.config import TTMConfig
from ttm_jax.engine.devices import DEVICES, USED, check_device, outlook_on, seconds_on
from ttm_jax.errors import InputError


def test_float32_takes_one_three_or_six_passes_on_a_tpu():
    device, config = DEVICES["v5e-8"], TTMConfig()
    flops = 197e12 * 8 * USED  # of a second in bfloat16
    times = [
        seconds_on(device, flops, replace(config, precision=precision))
        for precision in ("default", "high", "highest")
    ]
    assert times == pytest.approx([1, 3, 6])
    assert seconds_on(device, flops, replace(config, dtype="bfloat16")) == pytest.approx(1)


def test_the_line_counts_steps_scores_and_seeds():
    config = TTMConfig(iterations=3, dtype="bfloat16")
    hour = int(8 * 918e12 * USED * 3600)
    line = outlook_on("v6e-8", config, step=hour // 10, score=hour // 4, steps=(10, 20), seeds=2)
    assert line.startswith(f"v6e-8: {hour / 1e13:.3g} TFLOP per step, 3.6e+02 s at 40%")
    # Two seeds of 10 to 20 steps of 0.1 hours, and four scorings of 0.25.
    assert "4 to 6 hours and up to 1.3e+02 dollars" in line


def test_training_may_be_computed_otherwise_than_scores():
    config = TTMConfig(iterations=1, train_dtype="bfloat16")  # scores take six passes
    hour = int(8 * 918e12 * USED * 3600)
    line = outlook_on("v6e-8", config, step=hour, score=hour // 12, steps=(1, 1), seeds=1)
    assert "; 2 hours" in line


def test_unknown_machines_are_refused():
    with pytest.raises(InputError, match="no device is called 'v9'; there are v5e-8, v6e-8, h100"):
        check_device("v9", dry_run=True)
    with pytest.raises(InputError, match="--device is for --dry-run"):
        check_device("h100", dry_run=False)
    check_device(None, dry_run=False)
