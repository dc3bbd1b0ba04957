"""A jaxlib that miscomputes is refused in one line, by whatever would use it first."""

import pytest

from ttm_jax import InputError, load_model
from ttm_jax.models import jaxlib_check


def test_this_jaxlib_is_right():
    jaxlib_check.check_jaxlib.cache_clear()
    jaxlib_check.check_jaxlib()


def test_one_wrong_row_is_enough(monkeypatch):
    right = jaxlib_check._squared_lengths

    def wrong(matrix, rows):
        return right(matrix, rows).at[-1].multiply(1.01)

    monkeypatch.setattr(jaxlib_check, "_squared_lengths", wrong)
    jaxlib_check.check_jaxlib.cache_clear()
    with pytest.raises(InputError, match=r"wrong numbers on this CPU .*pip install 'jax!="):
        load_model("small-siglip")
