"""What a training step sends between 8 devices: embeddings and gradients, never pictures."""

import math

import jax
import pytest
from tiny import SIZE, tiny_dataset, tiny_model

from ttm_jax.config import TTMConfig
from ttm_jax.training import sharding
from ttm_jax.training.communication import Collective, collectives, compile_step, sent_bytes
from ttm_jax.training.optimizer import AdamW

DEVICES, GROUPS = 8, 16
PAIRS, WIDTH = 2 * GROUPS, 32  # embeddings of the tiny models


def compiled(family, placement="replicated", devices=DEVICES):
    config = TTMConfig(batch_groups=GROUPS, placement=placement)
    mesh = sharding.make_mesh(jax.devices()[:devices])
    task = tiny_model(family).bind(tiny_dataset(GROUPS), config, mesh, 0)
    return task, compile_step(task, AdamW(), GROUPS, placement)


def test_operations_are_read_from_the_text_of_a_program():
    text = """
%layer (p: f32[4]) -> f32[4] {
      %e = f32[10]{0} all-reduce(%p), to_apply=%add
}

ENTRY %main (x: f32[4,8]) -> f32[4] {
      %a = f32[32,8]{1,0} all-gather(%x), dimensions={0}
      %b = (f32[4]{0}, bf16[2,3]{1,0}) all-reduce(%y, %z), to_apply=%add
      %c = f32[4]{0} add(%p, %q), metadata={op_name="all-gather"}
      %w = (f32[4]{0}) while(%i), body=%layer, backend_config={"known_trip_count":{"n":"12"}}
}
"""
    found = collectives(text)
    assert [c.kind for c in found] == ["all-gather", "all-reduce", "all-reduce"]
    assert (found[2].times, found[2].bytes) == (12, 480)
    assert found[1] == Collective("all-reduce", ("f32", "bf16"), ((4,), (2, 3)))
    assert [c.bytes for c in found[:2]] == [1024, 28]
    assert sent_bytes(found[:2], 4) == round(0.75 * (1024 + 2 * 28))


@pytest.mark.parametrize("family", ["clip", "siglip"])
def test_a_step_gathers_embeddings_and_adds_up_gradients(family):
    task, step = compiled(family)
    found = collectives(step.as_text())
    gathered = [shape for c in found if c.kind == "all-gather" for shape in c.shapes]
    assert (PAIRS, WIDTH) in gathered
    reduced = sum(c.bytes for c in found if c.kind == "all-reduce")
    gradient = sum(4 * x.size for x in task.initial.trained.values())
    # All gradients, and beside them sums of the loss over the batch: a few numbers per pair.
    assert gradient <= reduced <= gradient + 16 * 4 * PAIRS * WIDTH
    others = [c for c in found if c.kind not in ("all-gather", "all-reduce")]
    assert not others
    # The images of one device alone are more than everything that is gathered.
    picture = 3 * SIZE * SIZE
    assert all(math.prod(shape) < picture * PAIRS / DEVICES for shape in gathered)
    assert not any(dtype == "u8" for c in found for dtype in c.dtypes)


def test_sharded_parameters_take_a_share_of_the_memory(monkeypatch):
    monkeypatch.setattr(sharding, "_SMALL", 0)  # split small ones too
    (_, whole), (task, split) = compiled("clip"), compiled("clip", "sharded")
    state = 3 * sum(4 * x.size for x in task.initial.trained.values())  # with both moments
    saved = (
        whole.memory_analysis().argument_size_in_bytes
        - split.memory_analysis().argument_size_in_bytes
    )
    # What no axis of 8 divides stays whole.
    odd = 3 * sum(
        4 * x.size for x in task.initial.trained.values() if all(n % DEVICES for n in x.shape)
    )
    assert saved == pytest.approx((state - odd) * (1 - 1 / DEVICES), rel=0.02)


def test_more_devices_compute_less_each_and_send_about_the_same():
    flops, sent = {}, {}
    for devices in (2, 8):
        _, step = compiled("siglip", devices=devices)
        flops[devices] = step.cost_analysis()["flops"]
        sent[devices] = sent_bytes(collectives(step.as_text()), devices)
    # A quarter, but for what each device does for itself, such as the update of the parameters.
    assert 0.25 <= flops[8] / flops[2] < 0.35
    assert sent[8] / sent[2] == pytest.approx((7 / 8) / (1 / 2), rel=0.05)
