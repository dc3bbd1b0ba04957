"""Named prompts for VQAScore models.

`{text}` is replaced by the caption. Templates are filled by plain replacement, not by `str.format`,
so captions and templates may contain any other braces.
"""

from ttm_jax.errors import InputError

PLACEHOLDER = "{text}"
PAPER_PROMPT = 'Does this image show "{text}"? Please answer "Yes" or "No".'  # paper, Sec. 4.3
# The other two are those of t2v_metrics/models/vqascore_models/gpt4v_model.py in
# github.com/linzhiqiu/t2v_metrics, at the commits 74c7208 and (old) 35bf3c0.
PROMPTS = {
    "paper": PAPER_PROMPT,
    "t2v_metrics": 'Does this figure show "{text}"? Please answer Yes or No.',
    "t2v_metrics_old": 'Does this figure show "{text}"? Please answer yes or no.',
}


def check_template(template: str) -> None:
    """Raise `InputError` unless the template contains the caption placeholder."""
    if PLACEHOLDER in template:
        return
    if "{caption}" in template:
        raise InputError(
            f"the prompt {template!r} contains {{caption}}, which is not replaced; write {{text}} "
            "where the caption goes"
        )
    raise InputError(
        f"the prompt {template!r} has no {{text}}, so it has no place for the caption; write "
        f"{{text}} where the caption goes"
    )


def fill(template: str, caption: str) -> str:
    """Insert a caption into a prompt template."""
    return template.replace(PLACEHOLDER, caption)
