"""Settings that are refused, the key that never shows, estimates, prices, budget and pace."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.errors import InputError
from ttm_jax.scorers.api.money import Ledger
from ttm_jax.scorers.api.pace import Pace, retry_after_seconds, wait_before_retry
from ttm_jax.scorers.api.progress import Bar, Lines, costs
from ttm_jax.scorers.api.secret import HIDDEN, Secret, from_environment
from ttm_jax.scorers.api.settings import Limits, Prices, Question, Usage
from ttm_jax.scorers.api.tokens import image_tokens, text_tokens

KEY = "sk-test-4b7Qw9ZxL0pR2mN8vT6y"


def test_prompts_of_the_paper_of_t2v_metrics_and_of_one_s_own():
    assert Question().ask("a cat") == 'Does this image show "a cat"? Please answer "Yes" or "No".'
    assert (
        Question(prompt="t2v_metrics").ask("a cat")
        == 'Does this figure show "a cat"? Please answer yes or no.'
    )
    assert (
        Question(prompt="{caption}? Yes or No").ask("{0} {caption}") == "{0} {caption}? Yes or No"
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"prompt": "Is it there?"}, "no place for the caption"),
        ({"model": " "}, "no name"),
        ({"base_url": "api.openai.com"}, "not an http"),
        ({"base_url": "ftp://host/v1"}, "not an http"),
        ({"base_url": "http://[::1/v1"}, "not an http"),
        ({"base_url": f"https://user:{KEY}@host/v1"}, "a user name, a password"),
        ({"base_url": f"https://host/v1?key={KEY}"}, "a user name, a password"),
        ({"top_logprobs": 0}, "--top-logprobs"),
        ({"max_image_size": 0}, "--max-image-size"),
    ],
)
def test_questions_that_are_refused(changes, says):
    with pytest.raises(InputError, match=says) as raised:
        Question(**changes)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [{"concurrency": 0}, {"requests_per_minute": 0.0}, {"tokens_per_minute": -1.0},
     {"timeout": 0.0}, {"retries": -1}, {"backoff": -1.0}, {"longest_retry_after": 0.0}],
)  # fmt: skip
def test_limits_that_are_refused(changes):
    with pytest.raises(InputError, match="--"):
        Limits(**changes)


# The key.


def test_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")
    secret = from_environment("SOME_KEY")
    assert secret.reveal() == KEY
    assert KEY not in repr(secret)
    assert KEY not in str(vars(Limits())) + f"{secret}"


@pytest.mark.parametrize("value", [None, "", "   ", "two words", "sk-\nsecond", "schlüssel-1234"])
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(monkeypatch, value):
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(InputError, match="SOME_KEY") as raised:
        from_environment("SOME_KEY")
    assert not value or not value.strip() or value not in str(raised.value)


@pytest.mark.parametrize(
    "given", [KEY, "0123456789abcdef0123456789abcdef", "abcdef0123456789abcdef"]
)
def test_a_key_in_the_place_of_its_variable_is_not_shown(given):
    with pytest.raises(InputError) as raised:
        from_environment(given)
    assert given not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Incorrect API key provided: {KEY}.", f"Incorrect API key provided: {HIDDEN}."),
        (f"Bearer {KEY} and {KEY}", f"Bearer {HIDDEN} and {HIDDEN}"),
        (f"{KEY[:10]}****{KEY[-9:]}", f"{HIDDEN}****{HIDDEN}"),
        (f"x{KEY[3:-2]}x", f"x{HIDDEN}x"),
        ("nothing here", "nothing here"),
        ("", ""),
    ],
)
def test_hide(text, shown):
    assert Secret(KEY).hide(text) == shown


@given(st.text(), st.integers(0, len(KEY) - 8), st.integers(8, len(KEY)), st.text())
def test_no_eight_characters_of_the_key_survive(before, start, length, after):
    hidden = Secret(KEY).hide(before + KEY[start : start + length] + after)
    assert not any(KEY[i : i + 8] in hidden for i in range(len(KEY) - 7))


def test_a_placeholder_is_no_secret():
    assert Secret("EMPTY").hide("the list is EMPTY") == "the list is EMPTY"


# Estimates.


@pytest.mark.parametrize(
    ("size", "model", "detail", "tokens"),
    [
        # OpenAI's own examples
        ((1024, 1024), "gpt-4o", "high", 765),
        ((2048, 4096), "gpt-4.1-2025-04-14", "high", 1105),
        ((4096, 8192), "gpt-4.1-2025-04-14", "low", 85),
        # measured by a user, without 12 tokens of text: a small image is not enlarged
        ((128, 64), "gpt-4.1-2025-04-14", "high", 255),
        ((128, 64), "gpt-4.1-2025-04-14", "auto", 255),
        ((128, 64), "gpt-4o-mini-2024-07-18", "low", 2833),
        ((128, 64), "gpt-4o-mini-2024-07-18", "high", 8500),
        ((128, 64), "gpt-4.1-mini-2025-04-14", "high", 13),
        ((2400, 1800), "gpt-4.1-mini", "high", 2489),
        ((512, 512), "a-model-of-your-own", "high", 255),
    ],
)
def test_image_tokens(size, model, detail, tokens):
    assert image_tokens(*size, model, detail) == tokens


def test_text_tokens_are_more_than_words_and_marks():
    """A common word is one token, and so is a mark; the estimate must not be below that."""
    prompt = Question().ask("an old person kisses a young person")
    pieces = re.findall(r"\w+|[^\w\s]", prompt)
    assert len(pieces) < text_tokens(prompt) < 2.5 * len(pieces)


# Prices and the budget.


def test_cost():
    prices = Prices(price_input=2.0, price_output=8.0, price_cached_input=0.5)
    assert prices.cost(Usage(1_000_000, 400_000, 10_000)) == pytest.approx(1.2 + 0.2 + 0.08)
    assert Prices(2.0, 8.0).cost(Usage(1_000_000, 400_000, 0)) == pytest.approx(2.0)
    assert not Prices().known


@pytest.mark.parametrize(
    "prices", [(2.0, None, None), (None, 8.0, None), (None, None, 1.0), (-1.0, 1.0, None)]
)
def test_prices_that_are_refused(prices):
    with pytest.raises(InputError):
        Prices(*prices)


def test_a_budget_needs_prices():
    with pytest.raises(InputError, match="--price-input"):
        Ledger(Prices(), budget=5.0)
    with pytest.raises(InputError, match="--budget"):
        Ledger(Prices(1.0, 1.0), budget=0.0)


@given(
    costs=st.lists(st.integers(960, 1040), min_size=1, max_size=60),
    budget=st.floats(0.0005, 0.06),
    at_once=st.integers(1, 20),
)
def test_spent_and_under_way_never_pass_the_budget(costs, budget, at_once):
    """Requests of 960 to 1040 tokens, estimated at 1000, at a dollar a million, in any overlap."""
    estimate = Usage(1000, 0, 0)
    ledger = Ledger(Prices(1.0, 1.0), budget)
    under_way: list[tuple[float, int]] = []
    for cost in costs:
        if len(under_way) == at_once:
            reserved, used = under_way.pop(0)
            ledger.settle(estimate, Usage(used, 0, 0))
            ledger.free(reserved)
        reserved = ledger.try_reserve(estimate)
        if reserved is None:
            break
        under_way.append((reserved, cost))
    for reserved, used in under_way:
        ledger.settle(estimate, Usage(used, 0, 0))
        ledger.free(reserved)
    assert ledger.reserved == pytest.approx(0.0, abs=1e-12)
    assert ledger.spent <= budget


def test_the_margin_follows_the_answers():
    ledger = Ledger(Prices(1.0, 1.0), budget=1.0)
    estimate = Usage(1000, 0, 0)
    assert ledger.price_of(estimate) == pytest.approx(2e-3)
    assert ledger.try_reserve(estimate) == pytest.approx(2e-3)
    assert ledger.try_reserve(estimate) is None, "the first goes alone"
    ledger.free(2e-3)
    ledger.settle(estimate, Usage(1500, 1500, 0))
    assert ledger.price_of(estimate) == pytest.approx(1.1 * 1.5e-3)
    assert ledger.spent == pytest.approx(1.5e-3)
    assert ledger.lose(estimate) == Usage(1500, 0, 0), "lost at what such a request takes"
    assert ledger.spent == pytest.approx(3e-3)
    assert ledger.expected(remaining=10, each=0.0) == pytest.approx(3e-3 + 10 * 1.5e-3)


def test_progress_tells_answers_cost_and_estimate(capsys):
    ledger = Ledger(Prices(2.0, 8.0))
    ledger.settle(Usage(1000, 0, 1), Usage(1_000_000, 0, 1))
    lines = Lines()
    lines.update(1, 3, ledger, 6.0)
    lines.update(3, 3, ledger, 6.0)
    assert capsys.readouterr().err == "3/3 answers, $2.00 of about $6.00\n"
    with Bar() as bar:
        bar.update(1, 3, ledger, 6.0)
        assert bar._bar.tasks[0].description == "$2.00 of about $6.00"
        assert (bar._bar.tasks[0].completed, bar._bar.tasks[0].total) == (1, 3)
    assert costs(Ledger(Prices(), used=Usage(1500, 0, 2)), 0.0) == "1,502 tokens"


# Pace and waits.


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@given(
    rate=st.integers(1, 600),
    gaps=st.lists(st.floats(0, 30), min_size=1, max_size=100),
)
def test_no_minute_has_more_requests_than_the_limit(rate, gaps):
    clock = Clock()
    pace = Pace(Limits(requests_per_minute=float(rate)), clock)
    starts = []
    for gap in gaps:
        clock.now += gap
        starts.append(clock.now + pace.book(1))
    assert starts == sorted(starts)
    for first in starts:
        inside = sum(first <= start < first + 60 - 1e-6 for start in starts)
        assert inside <= rate


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000)), min_size=1, max_size=100))
def test_no_minute_has_more_tokens_than_the_limit(requests):
    clock = Clock()
    pace = Pace(Limits(tokens_per_minute=10_000.0), clock)
    starts = []
    for gap, tokens in requests:
        clock.now += gap
        starts.append((clock.now + pace.book(tokens), tokens))
    for first, _ in starts:
        inside = [tokens for start, tokens in starts if first <= start < first + 60]
        assert sum(inside[:-1]) <= 10_000 + 1e-6  # the last one is paid for by those after it


def test_booked_tokens_are_corrected():
    clock = Clock()
    pace = Pace(Limits(tokens_per_minute=60.0), clock)
    assert pace.book(10) == 0
    pace.correct(10, 4)
    assert pace.book(1) == pytest.approx(4.0)


def test_a_pause_holds_everyone():
    clock = Clock()
    pace = Pace(Limits(), clock)
    assert pace.held() == 0
    pace.hold(5.0)
    pace.hold(2.0)
    assert pace.held() == pytest.approx(5.0)
    clock.now += 5.0
    assert pace.held() == 0


@given(st.integers(1, 10_000), st.integers(0, 2**32))
def test_full_jitter_below_a_ceiling_that_doubles(attempt, seed):
    limits = Limits(backoff=1.0, longest_backoff=60.0)
    wait = wait_before_retry(attempt, None, limits, random.Random(seed))
    assert 0 <= wait <= min(60.0, 2.0 ** min(attempt - 1, 10))


def test_jitter_fills_the_whole_range():
    rng = random.Random(0)
    waits = [wait_before_retry(4, None, Limits(), rng) for _ in range(500)]
    assert min(waits) < 0.5
    assert max(waits) > 7.5


@given(st.floats(0, 300), st.integers(1, 20), st.integers(0, 2**32))
def test_a_wait_that_the_server_asked_for_is_never_cut(asked, attempt, seed):
    wait = wait_before_retry(attempt, asked, Limits(), random.Random(seed))
    assert asked <= wait <= asked + 1.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-3"}, 0.0),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after_seconds(headers, lambda: 60.0) == seconds
