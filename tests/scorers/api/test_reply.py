"""Yes and No among the most likely tokens, and replies of every kind."""

import json
import math

import numpy as np
import pytest
from chat_server import completion
from hypothesis import given
from hypothesis import strategies as st

from ttm_jax.scorers.api.cost import Usage
from ttm_jax.scorers.api.reply import (
    MissingLogprobs,
    Reply,
    UnreadableReply,
    bare_word,
    filtered_reply,
    parse_reply,
    read_answer,
)

YES = [
    "Yes", "yes", "YES", " Yes", " yes", "Yes.", '"Yes', '"Yes"', "“Yes”", "'yes'", "Yes,",
    "**Yes", "Yes\n", "\u0120Yes", "\u2581yes", "(Yes)", "«Yes»", "yEs", "Yes!", "- Yes",
]  # fmt: skip
NO = [word.replace("Yes", "No").replace("yes", "no") for word in YES if "es" in word]
OTHER = [
    "Yesterday",
    "Y",
    "Ye",
    "Not",
    "Nope",
    "None",
    "I",
    '"',
    " ",
    "",
    "The",
    "Ja",
    "Yes/No",
    "oui",
]


def reply(*top: tuple[str, float], **changes) -> Reply:
    fields = {"finish_reason": "length", "content": "x", "refusal": None, "top": top} | changes
    return Reply(**fields)


@pytest.mark.parametrize("token", YES)
def test_every_spelling_of_yes_counts(token):
    assert bare_word(token) == "yes"
    assert read_answer(reply((token, math.log(0.25)))).score == pytest.approx(0.25, rel=1e-15)


@pytest.mark.parametrize("token", NO)
def test_every_spelling_of_no_counts(token):
    found = read_answer(reply((token, math.log(0.25))))
    assert (found.kind, found.score) == ("no", pytest.approx(0.75, rel=1e-15))


@pytest.mark.parametrize("token", OTHER)
def test_other_words_are_neither(token):
    found = read_answer(reply((token, -0.1), ("maybe", -3.0)))
    assert (found.kind, found.score, found.mass) == ("neither", None, 0.0)


@pytest.mark.parametrize(
    ("top", "kind", "score"),
    [
        # the sum over distinct tokens that mean Yes; No does not matter then
        ([("No", 0.5), ("Yes", 0.3), (" yes", 0.1), ('"Yes', 0.05)], "yes", 0.45),
        ([("No", 0.9), ("NO.", 0.05), ("I", 0.01)], "no", 0.05),
        ([("The", 0.9), ("Yes", 1e-9)], "yes", 1e-9),
        ([("Yes", 1.0)], "yes", 1.0),
        ([("No", 1.0)], "no", 0.0),
    ],
)  # fmt: skip
def test_yes_else_one_minus_no(top, kind, score):
    found = read_answer(reply(*((token, math.log(p)) for token, p in top)))
    assert found.kind == kind
    assert found.score == pytest.approx(score, rel=1e-12, abs=1e-15)


def test_rounded_probabilities_do_not_leave_zero_to_one():
    assert read_answer(reply(("Yes", -1e-9), (" yes", -10.0))).score == 1.0
    assert read_answer(reply(("No", -1e-9), (" no", -10.0))).score == 0.0


def test_the_unlikely_marker_means_not_listed():
    """-9999 stands for "not among the likeliest", so No decides."""
    found = read_answer(reply(("No", math.log(0.75)), ("Yes", -9999.0)))
    assert (found.kind, found.score) == ("no", pytest.approx(0.25))
    assert read_answer(reply(("Yes", -9999.0), ("I", -0.1))).kind == "neither"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"refusal": "I cannot help with that."}, "refusal"),
        ({"finish_reason": "content_filter"}, "content_filter"),
        ({"top": None}, "empty"),
        ({"top": ()}, "empty"),
    ],
)
def test_a_missing_answer_has_no_score(changes, kind):
    found = read_answer(reply(("Yes", -0.1), **changes))
    assert (found.kind, found.score) == (kind, None)


@pytest.mark.parametrize(
    ("top", "kind", "score"),
    [
        ([("Yes", 0.6), ("No", 0.4)], "yes", 0.6),
        # the first of the list decides: with No ahead of Yes it is 1 - P(No), not P(Yes)
        ([("No", 0.7), ("Yes", 0.2)], "no", 0.3),
        ([("yes", 0.6), ("Yes", 0.3)], "yes", 0.6),
        # only the four exact tokens count
        ([(" Yes", 0.9), ("No", 0.01)], "no", 0.99),
        ([('"Yes', 0.9)], "neither", None),
    ],
)  # fmt: skip
def test_the_old_rule_of_t2v_metrics(top, kind, score):
    check_float32_rule("t2v_metrics_old", top, kind, score)


@pytest.mark.parametrize(
    ("top", "kind", "score"),
    [
        ([("Yes", 0.6), ("No", 0.4)], "yes", 0.6),
        # Yes decides if there is one, wherever it stands
        ([("No", 0.7), ("Yes", 0.2)], "yes", 0.2),
        # the last of several spellings counts, they are not added up
        ([("Yes", 0.6), ("yes", 0.3), (" YES\n", 0.05)], "yes", 0.05),
        ([("NO", 0.6), (" no", 0.1)], "no", 0.9),
        # spaces around the word are ignored, quotes are not
        ([(" Yes", 0.9), ("No", 0.01)], "yes", 0.9),
        ([('"Yes', 0.9), ("No", 0.01)], "no", 0.99),
        ([('"Yes', 0.9)], "neither", None),
    ],
)  # fmt: skip
def test_the_rule_of_t2v_metrics(top, kind, score):
    check_float32_rule("t2v_metrics", top, kind, score)


def check_float32_rule(rule, top, kind, score):
    found = read_answer(reply(*((t, math.log(p)) for t, p in top)), rule)
    assert found.kind == kind
    assert found.score == (None if score is None else pytest.approx(score, abs=1e-7))
    if score is not None:
        assert found.score == float(np.float32(found.score)), "its tensors are float32"


@given(
    st.lists(
        st.tuples(st.sampled_from([*YES, *NO, *OTHER]), st.floats(-30, -3)),
        unique_by=lambda entry: entry[0],
    ).flatmap(lambda top: st.tuples(st.just(top), st.permutations(top)))
)
def test_the_score_is_a_probability_whatever_the_order(lists):
    first, second = (read_answer(reply(*top)) for top in lists)
    assert first.kind == second.kind
    assert first.score == second.score
    assert first.score is None or 0 <= first.score <= 1


def test_parse_reply_takes_the_first_position():
    body = completion([("Yes", -0.5), ("No", -1.0)])
    found = parse_reply(json.dumps(body))
    assert found.top == (("Yes", -0.5), ("No", -1.0))
    assert found.usage == Usage(1000, 0, 1)
    assert (found.served_model, found.fingerprint) == ("served-model-2025-01-01", "fp_1")
    assert Reply.from_json(found.to_json(), found.usage) == found


def test_a_token_listed_twice_counts_once():
    """vLLM lists the chosen token again; a token with other bytes is another token."""
    body = completion([("Yes", math.log(0.25)), ("Yes", math.log(0.25)), ("yes", math.log(0.5))])
    assert read_answer(parse_reply(json.dumps(body))).score == pytest.approx(0.75)
    body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["bytes"] = [1, 2]
    assert read_answer(parse_reply(json.dumps(body))).score == pytest.approx(1.0)


def test_the_chosen_token_counts_if_it_is_not_listed():
    body = completion([("Yes", -0.25)])
    body["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = []
    assert read_answer(parse_reply(json.dumps(body))).score == pytest.approx(math.exp(-0.25))


def test_usage_with_cached_tokens_and_without_usage():
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    assert parse_reply(json.dumps(completion([("No", -1.0)], usage=usage))).usage == Usage(
        100, 64, 1
    )
    for missing in (None, {}, {"prompt_tokens": "many", "completion_tokens": 1}):
        assert parse_reply(json.dumps(completion([("No", -1.0)], usage=missing))).usage is None


@pytest.mark.parametrize(
    "text",
    [
        "", "<html>Bad gateway</html>", '{"id": "x", "choices": [{"mess', "null", "[]", "{}",
        '{"choices": []}', '{"choices": [1]}', '{"choices": [{}]}', '{"choices": "none"}',
        '{"error": {"message": "overloaded"}}',
        json.dumps(completion([("Yes", 3.0)])),
        json.dumps(completion([("Yes", float("nan"))])),
        json.dumps(completion(None, choice={"logprobs": {"content": [{"token": "Yes"}]}})),
        json.dumps(completion(None, choice={"logprobs": {"content": ["Yes"]}})),
        json.dumps(completion(None, choice={"logprobs": {"content": {"token": "Yes"}}})),
    ],
)  # fmt: skip
def test_bodies_that_are_not_completions(text):
    with pytest.raises(UnreadableReply):
        parse_reply(text)


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": []}])
def test_text_without_logprobs(logprobs):
    message = {"role": "assistant", "content": "Yes"}
    body = completion(None, choice={"logprobs": logprobs, "message": message})
    with pytest.raises(MissingLogprobs):
        parse_reply(json.dumps(body))


def test_refusal_and_filter_need_no_logprobs():
    refused = completion(None, choice={"message": {"content": None, "refusal": "No way"}})
    assert read_answer(parse_reply(json.dumps(refused))).kind == "refusal"
    cut = completion(None, choice={"finish_reason": "content_filter", "message": {"content": "Y"}})
    assert read_answer(parse_reply(json.dumps(cut))).kind == "content_filter"
    assert read_answer(filtered_reply("flagged")).kind == "content_filter"
    silent = completion(None, choice={"message": {"content": ""}})
    assert read_answer(parse_reply(json.dumps(silent))).kind == "empty"


def test_minus_infinity_means_not_listed():
    body = json.dumps(completion([("No", -0.5), ("Yes", -math.inf)]))
    found = parse_reply(body)
    assert found.top == (("No", -0.5), ("Yes", -9999.0))
    json.loads(found.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
