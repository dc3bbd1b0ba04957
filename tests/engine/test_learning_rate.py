"""A learning rate without labels, on the procedural world: near the one that was tuned for it."""

import math

import jax
import pytest
from tiny import CONFIG, tiny_dataset, tiny_model

from ttm_jax.config import TTMConfig
from ttm_jax.data import world
from ttm_jax.engine.learning_rate import FARTHEST, RATES, FoundRate, Trial, find_rate
from ttm_jax.engine.recommended_settings import own_data_config, rate_is_known, with_advice
from ttm_jax.errors import InputError
from ttm_jax.inputs.model_advice import Advice
from ttm_jax.load import load_model
from ttm_jax.small.settings import SMALL


@pytest.mark.parametrize(
    ("losses", "moved", "good"),
    [
        ((3.0, 2.0, 1.0), 0.01, True),
        ((3.0, 3.02, 2.0), 0.01, True),  # within the noise
        ((3.0, 3.2, 2.0), 0.01, False),  # rises in between
        ((3.0, 2.9, 3.0), 0.01, False),  # no lower at the end
        ((3.0, 2.0, 1.0), 2 * FARTHEST, False),  # too far
        ((), math.inf, False),  # not finite
    ],
)
def test_what_counts_as_steady_and_near(losses, moved, good):
    assert Trial(1e-4, losses, moved).is_good is good


@pytest.mark.parametrize("limit", [0, 1e-5, 1e-4, 1e-3, 1.0])
def test_the_largest_that_passes_is_found(monkeypatch, limit):
    def judged(loop, matchings, rows, lr):
        return Trial(lr, (2.0, 1.0), 0.0 if lr <= limit else 1.0)

    monkeypatch.setattr("ttm_jax.engine.learning_rate._try", judged)
    found = find_rate(tiny_model(), tiny_dataset(), CONFIG, jax.devices()[:1])
    assert found.lr == max([rate for rate in RATES if rate <= limit], default=RATES[0])
    assert ("no rate passed" in found.text) == (limit == 0)
    assert len(found.trials) <= 3


def test_on_the_world_it_is_the_tuned_rate_or_next_to_it():
    """Small models were tuned to 2e-4; at the paper's 1e-5 they hardly move."""
    dataset = world.make("color_swap", groups=30).without_truth()
    config = TTMConfig(iterations=2, epochs=10, batch_groups=30)
    found = find_rate(load_model("small-siglip"), dataset, config, jax.devices()[:1])
    assert 1e-4 <= found.lr <= 5e-4
    assert "without labels" in found.text


def test_tied_groups_leave_the_smallest():
    assert "no rate passed" in FoundRate(RATES[0], (), 0).text


class TestAdvice:
    def test_small_models_recommend_what_the_demo_uses(self):
        advice = load_model("small-siglip").advice
        config = with_advice(own_data_config([(2, 2)], "group"), advice, "small-siglip")
        assert (config.lr, config.iterations, config.epochs) == (
            SMALL.lr, SMALL.iterations, SMALL.epochs
        )  # fmt: skip

    def test_who_recommends_a_rate(self):
        assert rate_is_known(Advice(settings={"lr": 1e-4}), "mine", generative=False)
        assert rate_is_known(Advice(), "google/siglip-base-patch16-224", generative=False)
        assert rate_is_known(Advice(), "mine", generative=True)
        assert not rate_is_known(Advice(), "mine", generative=False)

    @pytest.mark.parametrize("settings", [{"lrr": 1}, {"lr": "much"}, {"epochs": 1.5}, {"lr": -1}])
    def test_nonsense_is_refused(self, settings):
        with pytest.raises(InputError):
            with_advice(TTMConfig(), Advice(settings=settings), "mine")
