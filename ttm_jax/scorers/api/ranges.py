"""Numbers in settings: NaN, infinity and absurd values are refused before they can do harm."""

from ttm_jax.errors import InputError


def check_range(name: str, value: float | int | None, low: float | int, high: float | int) -> None:
    """Raise `InputError` unless `value` is None or from `low` to `high`; NaN is outside."""
    if value is not None and not low <= value <= high:
        raise InputError(f"`{name}` is {value}; expected a number from {low:g} to {high:g}")
