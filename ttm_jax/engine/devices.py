"""What a run would take on a machine that is not at hand: arithmetic from data sheets."""

from dataclasses import dataclass
from typing import Literal, get_args

from ttm_jax.config import Dtype, Precision, TTMConfig
from ttm_jax.errors import InputError

DeviceName = Literal["v5e-8", "v6e-8", "h100"]
USED = 0.4  # of the peak; large transformers reach 30 to 60 % of it


@dataclass(frozen=True)
class Device:
    """A machine; numbers per chip."""

    chips: int
    bfloat16: float
    """Peak of matrix products in bfloat16, in TFLOP/s."""
    float32: dict[str, float]
    """The same in float32, for each `precision`."""
    gigabytes: float
    dollars: float
    """List price of a chip for an hour, on demand."""


def _tpu(chips: int, peak: float, gigabytes: float, dollars: float) -> Device:
    """On a TPU a float32 product is made of bfloat16 ones: 1, 3 or 6 of them."""
    float32 = {"default": peak, "high": peak / 3, "highest": peak / 6}
    return Device(chips, peak, float32, gigabytes, dollars)


# Data sheets: 197 and 918 TFLOP/s per chip, 16 and 32 GB; an H100 SXM has 989 TFLOP/s in bfloat16,
# 494 in TF32 and 67 in float32, and 80 GB. Prices: docs/scale.md.
DEVICES: dict[DeviceName, Device] = {
    "v5e-8": _tpu(8, 197.0, 16.0, 1.20),
    "v6e-8": _tpu(8, 918.0, 32.0, 2.70),
    "h100": Device(1, 989.0, {"default": 494.0, "high": 494.0, "highest": 67.0}, 80.0, 11.0),
}


def find_device(name: str) -> Device:
    """The machine of this name."""
    for known in get_args(DeviceName):
        if name == known:
            return DEVICES[known]
    raise InputError(f"no device is called {name!r}; there are {', '.join(get_args(DeviceName))}")


def check_device(name: str | None, *, dry_run: bool) -> None:
    """Refuse `--device` for a machine that nobody knows, or where nothing is estimated."""
    if name is None:
        return
    find_device(name)
    if not dry_run:
        raise InputError("--device is for --dry-run; a run takes the devices that are here")


def seconds_on(device: Device, flops: float, config: TTMConfig) -> float:
    """Time for so many operations of matrix products, at a usual share of the peak."""
    return _seconds(device, flops, config.dtype, config.precision)


def training_seconds_on(device: Device, flops: float, config: TTMConfig) -> float:
    """The same for operations of training steps."""
    return _seconds(device, flops, *config.training_compute)


def _seconds(device: Device, flops: float, dtype: Dtype, precision: Precision) -> float:
    peak = device.bfloat16 if dtype == "bfloat16" else device.float32[precision]
    return flops / (USED * device.chips * peak * 1e12)


def outlook_on(
    name: str, config: TTMConfig, *, step: int, score: int, steps: tuple[int, int], seeds: int
) -> str:
    """One line for `--dry-run`; `step` and `score` are operations of a step and of all scores."""
    device = find_device(name)
    scoring = seconds_on(device, float((config.iterations + 1) * score), config)
    each = training_seconds_on(device, float(step), config)
    totals = [seeds * (n * each + scoring) for n in steps]
    hours = " to ".join(dict.fromkeys(_at_least(seconds / 3600) for seconds in totals))
    dollars = totals[-1] / 3600 * device.chips * device.dollars
    return (
        f"{name}: {step / 1e12:.3g} TFLOP per step, {each:.2g} s at "
        f"{USED:.0%} of the peak of {device.chips} chips; {hours} hours and up to "
        f"{_at_least(dollars)} dollars in all, without starting and compiling"
    )


def _at_least(value: float) -> str:
    """No more digits than an estimate deserves."""
    return "0.01" if value < 0.01 else f"{value:.2g}"
