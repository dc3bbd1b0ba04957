"""The real openai client against a local server: correct scores, and every kind of fault."""

import json
import math
import threading
import time

import numpy as np
import pytest
from chat_server import (
    ChatServer,
    Request,
    Response,
    answer,
    by_content,
    completion,
    error,
    probability,
)

from ttm_jax.data.groups import Group, GroupedDataset
from ttm_jax.errors import InputError
from ttm_jax.runs.signals import RunInterrupted
from ttm_jax.scorers.api import (
    ApiKey,
    Prices,
    RateLimits,
    Replies,
    RequestSettings,
    RetryPolicy,
    estimate_cost,
    fetch,
    fetch_replies,
    make_plan,
    read_run,
    resolve_missing,
)
from ttm_jax.scorers.api.cache import ResponseCache

pytest.importorskip("openai")

KEY = "sk-test-4b7Qw9ZxL0pR2mN8vT6y"
EIGHT, ONE = RateLimits(concurrency=8), RateLimits(concurrency=1)
FAST = RetryPolicy(timeout=5.0, retries=6, backoff=0.01, longest_backoff=0.05)
PATIENT = RetryPolicy(timeout=30.0)
PRICES = Prices(price_input=1.0, price_output=1.0)  # an answer of the server costs $0.001001


def make_dataset(groups: int = 3) -> GroupedDataset:
    rng = np.random.default_rng(0)
    return GroupedDataset.from_groups(
        [
            Group(
                id=f"g{g}",
                images=tuple(rng.integers(0, 256, (8, 8, 3), np.uint8) for _ in range(2)),
                captions=(f"a cat above a dog, {g}", f"a dog above a cat, {g}"),
                truth=(0, 1),
            )
            for g in range(groups)
        ],
        name="pairs",
    )


def ask(
    server: ChatServer, path, groups=3, runs=1, rates=EIGHT, retry=FAST, settings=None, **rest
) -> Replies:
    settings = settings or RequestSettings(model="some-model", base_url=server.url)
    plan = make_plan(make_dataset(groups), settings, runs)
    cache = path / "answers.sqlite"
    return fetch_replies(plan, cache, ApiKey(KEY), rates=rates, retry=retry, **rest)


def fails_first(times: int, fault: Response):
    """Every content fails so many times before it is answered."""
    return lambda request: fault if request.times <= times else by_content(request)


# Correct scores.


def test_scores_are_the_probabilities_in_the_replies(tmp_path):
    with ChatServer() as server:
        replies = ask(server, tmp_path)
    dataset = make_dataset()
    expected = {(r.prompt, r.image_url): probability(r) for r in server.requests}
    assert len(expected) == 12
    assert server.received.most_common(1)[0][1] == 1
    run = read_run(replies, 1)
    assert run.kinds == {"yes": 12}
    assert run.scores[0].shape == (3, 2, 2)
    from ttm_jax.scorers.api.images import data_url

    for g, i, t in np.ndindex(3, 2, 2):
        prompt = RequestSettings().prompt_for(dataset.captions[2 * g + t])
        url = data_url(dataset.images[2 * g + i], "keep", None)
        assert run.scores[0][g, i, t] == pytest.approx(expected[prompt, url], rel=1e-12)


def test_the_request_body(tmp_path):
    with ChatServer() as server:
        ask(server, tmp_path, groups=1)
    request = server.requests[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert {k: v for k, v in request.body.items() if k != "messages"} == {
        "model": "some-model",
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 20,
        "max_tokens": 1,
    }
    assert [part["type"] for part in request.parts] == ["image_url", "text"]
    assert request.parts[0]["image_url"]["detail"] == "auto"
    assert request.image_url.startswith("data:image/png;base64,")


def test_settings_reach_the_server(tmp_path):
    with ChatServer() as server:
        settings = RequestSettings(
            model="m",
            base_url=server.url + "/",
            prompt="t2v_metrics",
            image_first=False,
            detail="low",
            image_format="jpeg",
            top_logprobs=5,
            token_limit="max_completion_tokens",
        )
        ask(server, tmp_path, groups=1, settings=settings)
    request = server.requests[0]
    assert [part["type"] for part in request.parts] == ["text", "image_url"]
    assert request.parts[1]["image_url"]["detail"] == "low"
    assert request.image_url.startswith("data:image/jpeg;base64,")
    assert request.body["top_logprobs"] == 5
    assert request.body["max_completion_tokens"] == 1
    assert "max_tokens" not in request.body
    assert request.prompt.startswith("Does this figure show")


# The cache.


def test_rerunning_a_finished_run_sends_nothing(tmp_path):
    with ChatServer() as server:
        first = ask(server, tmp_path, runs=2)
        assert server.received.total() == 24
        again = ask(server, tmp_path, runs=2)
        assert server.received.total() == 24
    assert (first.sent, again.sent) == (24, 0)
    assert again.by_key == first.by_key
    assert again.used == first.used
    for run in (1, 2):
        np.testing.assert_array_equal(read_run(again, run).scores, read_run(first, run).scores)


@pytest.mark.parametrize(
    "change",
    [{"model": "other"}, {"detail": "low"}, {"prompt": "{text}? Yes or No."},
     {"image_first": False}, {"max_image_size": 16}, {"top_logprobs": 5}, {"image_format": "png"}],
)  # fmt: skip
def test_other_settings_are_asked_separately(tmp_path, change):
    with ChatServer() as server:
        base = {"model": "some-model", "base_url": server.url}
        ask(server, tmp_path, groups=1)
        ask(server, tmp_path, groups=1, settings=RequestSettings(**(base | change)))
        assert server.received.total() == 8


def test_runs_are_asked_separately_and_more_groups_only_add_requests(tmp_path):
    with ChatServer(lambda r: answer(0.2 + 0.1 * r.times)) as server:
        two = ask(server, tmp_path, groups=1, runs=2)
        four = ask(server, tmp_path, groups=2, runs=4)
        assert server.received.total() == 4 * 4 + 4 * 4
    values = [read_run(four, run).scores[0][0] for run in range(1, 5)]
    assert len({float(v[0, 0]) for v in values}) == 4
    np.testing.assert_array_equal(read_run(two, 1).scores[0][0], values[0])


def test_an_image_in_two_files_is_asked_about_once(tmp_path):
    picture = np.zeros((8, 8, 3), np.uint8)
    group = Group("g", (picture, picture.copy()), ("a", "b"), (0, 1))
    with ChatServer() as server:
        plan = make_plan(
            GroupedDataset.from_groups([group]), RequestSettings(model="m", base_url=server.url)
        )
        replies = fetch_replies(plan, tmp_path / "c.sqlite", ApiKey(KEY), rates=EIGHT, retry=FAST)
        assert server.received.total() == 2
    scores = read_run(replies, 1).scores[0][0]
    np.testing.assert_array_equal(scores[0], scores[1])


# Transient faults.


def test_many_429s_are_retried(tmp_path):
    with ChatServer(fails_first(3, error(429, "slow down", "rate_limit_exceeded"))) as server:
        replies = ask(server, tmp_path)
        assert set(server.received.values()) == {4}
    assert replies.retried == 36
    assert read_run(replies, 1).kinds == {"yes": 12}


def test_retry_after_holds_all_requests(tmp_path):
    """One of two workers is told to wait a second; the other soon starts nothing either."""
    told: list[float] = []
    early: list[int] = []

    def script(request: Request) -> Response:
        if not told:
            told.append(time.monotonic())
            return error(429, "wait", retry_after="1")
        if 0.5 < time.monotonic() - told[0] < 0.95:
            early.append(request.number)
        return Response(body=by_content(request).body, gate=lambda: time.sleep(0.05))

    with ChatServer(script) as server:
        ask(
            server,
            tmp_path,
            groups=10,
            rates=RateLimits(concurrency=2),
            retry=RetryPolicy(backoff=0.01, timeout=5.0),
        )
        assert server.received.total() == 41
    assert early == []


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 529])
def test_server_errors_are_retried(tmp_path, status):
    with ChatServer(fails_first(2, error(status, "oops"))) as server:
        replies = ask(server, tmp_path, groups=1)
        assert set(server.received.values()) == {3}
    assert read_run(replies, 1).kinds == {"yes": 4}
    assert replies.lost.input == 0, "what was refused was not billed"


@pytest.mark.parametrize(
    "fault",
    [
        Response(body='{"id": "chatcmpl", "choices": [{"index"'),
        Response(body="<html>Bad gateway</html>", headers={"content-type": "text/html"}),
        Response(body=""),
        Response(body=json.dumps({"error": {"message": "overloaded"}})),
        Response(body=json.dumps(completion([("Yes", -0.5)])), drop=True),
    ],
    ids=["truncated JSON", "HTML", "empty", "an error with status 200", "disconnect"],
)
def test_unusable_replies_are_retried(tmp_path, fault):
    with ChatServer(fails_first(1, fault)) as server:
        replies = ask(server, tmp_path, groups=1)
        assert set(server.received.values()) == {2}
    assert read_run(replies, 1).kinds == {"yes": 4}
    assert replies.lost.input > 0, "it may have been billed"


@pytest.mark.parametrize(
    "fault",
    [Response(hang=True), Response(body=answer(0.5).body, drip=True)],
    ids=["hangs", "sends slowly"],
)
def test_a_server_that_hangs_or_is_too_slow_times_out(tmp_path, fault):
    retry = RetryPolicy(timeout=0.4, retries=3, backoff=0.01, longest_backoff=0.05)
    with ChatServer(fails_first(1, fault)) as server:
        replies = ask(server, tmp_path, groups=1, rates=RateLimits(concurrency=4), retry=retry)
        assert set(server.received.values()) == {2}
    assert read_run(replies, 1).kinds == {"yes": 4}
    assert replies.lost.output == 4


def test_no_server_at_all(tmp_path):
    with ChatServer() as server:
        pass
    retry = RetryPolicy(retries=2, backoff=0.01, longest_backoff=0.02)
    with pytest.raises(RunInterrupted, match=r"gave up after 3 attempts: the connection") as raised:
        ask(server, tmp_path, retry=retry)
    assert raised.value.code == 75
    with ResponseCache(tmp_path / "answers.sqlite") as cache:
        assert cache._db.execute("SELECT COUNT(*) FROM lost").fetchone() == (0,)
        assert cache._db.execute("SELECT COUNT(*) FROM claims").fetchone() == (0,)


def test_giving_up_keeps_the_answers(tmp_path):
    def script(request: Request) -> Response:
        return by_content(request) if server.answered.total() < 5 else error(500, "down")

    retry = RetryPolicy(retries=2, backoff=0.01, longest_backoff=0.02, timeout=5.0)
    with ChatServer(script) as server:
        with pytest.raises(
            RunInterrupted, match=r"gave up after 3 attempts: .* answers 500: .*down"
        ):
            ask(server, tmp_path, rates=ONE, retry=retry)
        assert server.received.total() == 5 + 3
        server.script = by_content
        replies = ask(server, tmp_path, rates=ONE, retry=retry)
    assert replies.sent == 7
    assert set(server.answered.values()) == {1}


# Permanent faults.


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            error(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"),
            "does not accept the",
        ),
        (error(403, "not allowed"), "may not use this model"),
        (error(404, "The model `x` does not exist", "model_not_found"), "check `base_url`"),
        (error(400, "logprobs are not supported"), "logprobs are not supported"),
        (error(422, "bad field"), "bad field"),
        (error(413, "too large"), "`max_image_size`"),
        (error(429, "You exceeded your quota", "insufficient_quota"), "no credit"),
        (
            Response(body=json.dumps(completion(None, choice={"message": {"content": "Yes"}}))),
            "without log-probabilities",
        ),
    ],
    ids=["401", "403", "404", "400", "422", "413", "quota", "no logprobs"],
)
def test_permanent_faults_stop_at_once(tmp_path, fault, says):
    with ChatServer(lambda request: fault) as server:
        with pytest.raises(InputError, match=says) as raised:
            ask(server, tmp_path, groups=20)
        assert server.received.total() <= EIGHT.concurrency
        assert server.received.most_common(1)[0][1] == 1, "no retry"
    assert KEY[:8] not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_requests_that_hang_when_the_run_stops_count_as_maybe_billed(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "_GRACE", 0.3)

    def script(request: Request) -> Response:
        return error(403, "no") if request.number > 4 else Response(hang=True)

    with ChatServer(script) as server:
        with pytest.raises(InputError, match="answers 403"):
            ask(server, tmp_path, groups=5, rates=RateLimits(concurrency=5), retry=PATIENT)
        plan = make_plan(make_dataset(5), RequestSettings(model="some-model", base_url=server.url))
        estimate = estimate_cost(plan, tmp_path / "answers.sqlite")
    assert estimate.spent.output == 4, "four may have been billed"


def test_a_server_that_asks_to_wait_an_hour_stops_the_run(tmp_path):
    with (
        ChatServer(lambda request: error(429, "tomorrow", retry_after="3600")) as server,
        pytest.raises(RunInterrupted, match="asks to wait 3600 s"),
    ):
        ask(server, tmp_path, rates=ONE, retry=RetryPolicy())
    assert server.received.total() == 1


def test_the_key_as_the_model_is_refused(tmp_path):
    with ChatServer() as server:
        settings = RequestSettings(model="quitesecretword", base_url=server.url)
        plan = make_plan(make_dataset(1), settings)
        with pytest.raises(InputError, match="contains the API key") as raised:
            fetch_replies(plan, tmp_path / "answers.sqlite", ApiKey("quitesecretword"))
        assert server.received.total() == 0
    assert "quitesecret" not in str(raised.value)


# Missing answers.


def refuses(request: Request) -> Response:
    """The first caption of the first group is refused, of the second filtered, and so on."""
    special = {
        "a cat above a dog, 0": completion(
            None, choice={"message": {"content": None, "refusal": f"I won't. {KEY}"}}
        ),
        "a cat above a dog, 1": completion(None, choice={"finish_reason": "content_filter"}),
        "a cat above a dog, 2": completion([("Perhaps", -0.1), ("I", -3.0)]),
    }
    for caption, body in special.items():
        if f'"{caption}"' in request.prompt:
            return Response(body=json.dumps(body))
    if '"a dog above a cat, 0"' in request.prompt:
        return error(400, "flagged by the policy", "content_filter")
    return by_content(request)


def test_missing_answers_are_counted_and_never_silently_zero(tmp_path):
    with ChatServer(refuses) as server:
        replies = ask(server, tmp_path, groups=4)
        assert server.received.most_common(1)[0][1] == 1, "a refusal is an answer: no retry"
        again = ask(server, tmp_path, groups=4)
        assert (again.sent, again.by_key) == (0, replies.by_key)
    run = read_run(replies, 1)
    assert run.kinds == {"refusal": 2, "content_filter": 4, "neither": 2, "yes": 8}
    assert int(np.isnan(run.scores[0]).sum()) == 8
    dataset = make_dataset(4)
    with pytest.raises(InputError, match=r"8 of 16 answers hold neither Yes nor No \(4 content_f"):
        resolve_missing(run, dataset, "fail")
    same, zero = resolve_missing(run, dataset, "zero")
    assert same is dataset
    assert (zero[0] == 0).sum() == 8
    fewer, kept = resolve_missing(run, dataset, "drop")
    assert fewer.blocks[0].ids == ("g3",)
    np.testing.assert_array_equal(kept[0], run.scores[0][3:])
    refusals = [entry for entry in run.unanswered if entry["kind"] == "refusal"]
    assert {entry["said"] for entry in refusals} == {"I won't. [key]"}
    assert refusals[0]["groups"] == ["g0"]


def test_a_prompt_that_is_never_answered_stops_early(tmp_path):
    nonsense = Response(body=json.dumps(completion([("Perhaps", -0.1)])))
    with ChatServer(lambda request: nonsense) as server:
        with pytest.raises(InputError, match="the first 20 answers say neither Yes nor No"):
            ask(server, tmp_path, groups=50)
        assert 20 <= server.received.total() <= 20 + EIGHT.concurrency


def test_weak_answers_are_counted(tmp_path):
    body = completion([("Perhaps", math.log(0.9)), ("Yes", math.log(0.05)), ("No", math.log(0.04))])
    with ChatServer(lambda request: Response(body=json.dumps(body))) as server:
        run = read_run(ask(server, tmp_path, groups=1), 1)
    assert run.weak == 4
    np.testing.assert_allclose(run.scores[0], 0.05, rtol=1e-12)


# Concurrency and rate limits.


def test_fifty_requests_in_flight(tmp_path):
    barrier = threading.Barrier(50)

    def script(request: Request) -> Response:
        return Response(body=by_content(request).body, gate=lambda: barrier.wait(20))

    with ChatServer(script) as server:
        replies = ask(server, tmp_path, groups=25, rates=RateLimits(concurrency=50), retry=PATIENT)
        assert server.most_at_once == 50
        assert server.received.total() == 100
    assert read_run(replies, 1).kinds == {"yes": 100}


def test_concurrency_is_limited(tmp_path):
    with ChatServer(
        lambda r: Response(body=by_content(r).body, gate=lambda: time.sleep(0.01))
    ) as s:
        ask(s, tmp_path, groups=10, rates=RateLimits(concurrency=3), retry=PATIENT)
        assert s.most_at_once <= 3


def seconds_for_twelve(path, rates: RateLimits) -> float:
    """From before the first to after the last request: a slow machine only adds to it."""
    with ChatServer() as server:
        start = time.monotonic()
        ask(server, path, rates=rates, retry=RetryPolicy())
        assert server.received.total() == 12
        return time.monotonic() - start


def test_requests_per_minute(tmp_path):
    took = seconds_for_twelve(tmp_path, RateLimits(concurrency=12, requests_per_minute=600.0))
    assert took >= 11 * 0.1, "one per 100 ms"


def test_tokens_per_minute(tmp_path):
    """The server reports 1000 tokens each, not the estimated 285 or so: the limiter corrects it."""
    took = seconds_for_twelve(tmp_path, RateLimits(concurrency=1, tokens_per_minute=600_000.0))
    assert took >= 11 * 0.1, "1000 tokens take 100 ms"


# Budget.


def test_the_budget_is_not_exceeded_and_a_larger_one_resumes(tmp_path):
    with ChatServer() as server:
        with pytest.raises(InputError, match=r"the budget of \$0.0200 is reached") as raised:
            ask(server, tmp_path, groups=10, prices=PRICES, budget=0.02)
        paid = server.answered.total()
        each = 0.001001
        assert paid * each <= 0.02
        assert (paid + 2) * each > 0.02, "all of it is used except the margin of one request"
        assert "larger `budget`" in str(raised.value)
        with pytest.raises(InputError, match="is reached"):
            ask(server, tmp_path, groups=10, prices=PRICES, budget=0.02)
        assert server.received.total() == paid, "what was spent before counts"
        replies = ask(server, tmp_path, groups=10, prices=PRICES, budget=0.1)
        assert server.received.total() == 40
        assert set(server.received.values()) == {1}
        again = ask(server, tmp_path, groups=10, prices=PRICES, budget=0.001)
    assert replies.sent == 40 - paid
    assert again.sent == 0, "with nothing to send no budget is too small"


def test_a_budget_for_less_than_one_request(tmp_path):
    with ChatServer() as server:
        with pytest.raises(InputError, match="is reached"):
            ask(server, tmp_path, prices=PRICES, budget=0.0001)
        assert server.received.total() == 0


def test_timeouts_count_against_the_budget(tmp_path):
    retry = RetryPolicy(timeout=0.2, retries=0, backoff=0.01)
    with ChatServer(lambda request: Response(hang=True)) as server:
        with pytest.raises(
            RunInterrupted, match=r"gave up after 1 attempts: no answer within 0.2 s"
        ):
            ask(server, tmp_path, groups=1, prices=PRICES, budget=1.0, rates=ONE, retry=retry)
        plan = make_plan(make_dataset(1), RequestSettings(model="some-model", base_url=server.url))
        estimate = estimate_cost(plan, tmp_path / "answers.sqlite")
    assert estimate.spent == plan.requests[0].estimate
    assert (estimate.requests, estimate.answered) == (4, 0)


def test_retries_do_not_exceed_the_budget(tmp_path):
    """Every timeout may be billed; with room for 3 requests of 285 or so tokens, 3 are sent."""
    retry = RetryPolicy(timeout=0.1, retries=50, backoff=0.01, longest_backoff=0.02)
    plan = make_plan(make_dataset(1), RequestSettings(model="some-model"))
    budget = 4.5 * PRICES.cost(plan.requests[0].estimate)
    with ChatServer(lambda request: Response(hang=True)) as server:
        with pytest.raises(InputError, match="is reached"):
            ask(server, tmp_path, groups=1, prices=PRICES, budget=budget, rates=ONE, retry=retry)
        assert server.received.total() == 3, "2 lost and twice the estimate for the next are 4"


def test_usage_is_estimated_if_the_server_does_not_report_it(tmp_path):
    with ChatServer(lambda request: answer(0.5, usage=None)) as server:
        replies = ask(server, tmp_path, groups=1)
    assert replies.used.input == sum(request.estimate.input for request in replies.plan.requests)


def test_estimating_sends_nothing_and_creates_no_file(tmp_path):
    with ChatServer() as server:
        settings = RequestSettings(model="some-model", base_url=server.url)
        plan = make_plan(make_dataset(), settings, runs=2)
        estimate = estimate_cost(plan, tmp_path / "none.sqlite")
        assert server.received.total() == 0
    assert (estimate.requests, estimate.answered) == (24, 0)
    assert estimate.remaining.output == 24
    assert list(tmp_path.iterdir()) == []


def test_inside_a_running_loop(tmp_path):
    """As in a notebook."""
    import asyncio

    async def cell() -> Replies:
        return ask(server, tmp_path, groups=1)

    with ChatServer() as server:
        assert asyncio.run(cell()).sent == 4
