"""The choices that are known to move numbers: what else the paper's program could have done."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from experiments._flags import Exif
from ttm_jax.data.benchmarks.catalogue import Benchmark
from ttm_jax.inputs.image_decode import Alpha
from ttm_jax.inputs.image_resize import Kind
from ttm_jax.inputs.tokenize import Canonicalise
from ttm_jax.inputs.vqa_prompts import PLACEHOLDER, PROMPTS
from ttm_jax.report.checkup.measure import Ties
from ttm_jax.report.checkup.search import Choice

if TYPE_CHECKING:
    from ttm_jax.scorers.contrastive.model import ContrastiveModel
    from ttm_jax.scorers.vqa.model import VQAModel

Groups = Literal["published", "exchanged", "as_released", "by_question_id"]
Resize = Literal["pil", "pil_bilinear", "big_vision"]
_WITHOUT_SCORES = ("ties", "groups")


@dataclass(frozen=True)
class Settings:
    """One way to score a model on a benchmark and to count; the defaults are what we do."""

    ties: Ties = "wrong"
    groups: Groups = "published"
    exif: Exif = "as-published"
    alpha: Alpha = "drop"
    resize: Resize = "pil"
    """"pil" has the checkpoint's filter."""
    kind: Kind | None = None
    """None: the checkpoint's."""
    canonicalise: Canonicalise = "transformers"
    padding: Literal["full", "longest"] = "full"
    template: str = PLACEHOLDER
    """What is done to every caption."""
    question: str = ""
    """Of VQA models; empty means the usual one."""
    normalise: Literal["vocabulary", "answers"] = "vocabulary"
    splitting: bool | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    precision: Literal["highest", "high", "default"] = "highest"

    def with_choices(self, *choices: Choice) -> "Settings":
        changes: dict[str, Any] = {}
        for choice in choices:
            changes |= dict(choice.changes)
        return replace(self, **changes)

    @property
    def of_scores(self) -> "Settings":
        """What decides the scores: the rest only counts them."""
        usual = {name: getattr(Settings(), name) for name in _WITHOUT_SCORES}
        return replace(self, **usual)


def find_choices(
    model: "ContrastiveModel | VQAModel", benchmark: Benchmark, usual: Settings, on_cpu: bool
) -> list[Choice]:
    """All that apply to this model and benchmark; those that need no new scores first."""
    applied = {"on": True, "off": False}.get(usual.exif, benchmark.exif)
    other: Exif = "off" if applied else "on"
    found = [
        _choice("a tie counts as right", ties="right"),
        *_group_choices(benchmark),
        _choice(f"EXIF orientation {'ignored' if applied else 'applied'}", exif=other),
        _choice("transparent pictures on white", alpha="white"),
        *(_vqa_choices(model) if _is_vqa(model) else _contrastive_choices(model)),
    ]
    if benchmark.source == "mmvp_vlm":
        found.append(_choice('"a photo of" before captions', template=f"a photo of {PLACEHOLDER}"))
    found.append(_choice("bfloat16", dtype="bfloat16"))
    if not on_cpu:  # there float32 products are exact
        found.append(_choice("matrix products in the default precision", precision="default"))
    return [choice for choice in found if usual.with_choices(choice) != usual]


def _group_choices(benchmark: Benchmark) -> list[Choice]:
    found = []
    if benchmark.shape[0] == benchmark.shape[1]:
        found.append(_choice("images of each group exchanged", groups="exchanged"))
    if benchmark.source == "whatsup" and benchmark.part == "a":
        found.append(_choice("labels as released", groups="as_released"))
    if benchmark.source == "mmvp_vlm":
        found.append(_choice("rows paired in the order of Question ID", groups="by_question_id"))
    return found


def _contrastive_choices(model: Any) -> list[Choice]:
    found = [
        _choice("big_vision's resize (bilinear, no antialias)", resize="big_vision"),
        _choice("Pillow's bilinear resize", resize="pil_bilinear"),
    ]
    squash = _choice("resized to the square", kind="squash")
    crop = _choice("shorter side and centre crop", kind="shorter_side+center_crop")
    found.append(crop if model.processor.kind == "squash" else squash)
    if model.family == "siglip":  # CLIP's tokenizer cleans captions itself; what it pads is unseen
        found += [
            _choice("big_vision's canonicalisation of captions", canonicalise="big_vision"),
            _choice("captions padded to the longest only", padding="longest"),
        ]
    return found


def _vqa_choices(model: Any) -> list[Choice]:
    found = [_choice('P("Yes") / (P("Yes") + P("No"))', normalise="answers")]
    if model.processor.splitting:
        found.append(_choice("images not split into tiles", splitting=False))
    return [*found, _choice("the question of t2v_metrics", question=PROMPTS["t2v_metrics"])]


def _choice(name: str, **changes: Any) -> Choice:
    rescores = any(field not in _WITHOUT_SCORES for field in changes)
    return Choice(name, tuple(changes.items()), rescores)


def _is_vqa(model: Any) -> bool:
    return not hasattr(model, "family")
