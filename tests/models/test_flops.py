"""Operations counted from sizes, beside what the compiler counts."""

from dataclasses import replace

import jax
import pytest
from tiny import tiny_dataset, tiny_model

from ttm_jax.config import Memory, TTMConfig
from ttm_jax.models.clip import CLIPConfig
from ttm_jax.models.flops import forward_flops, step_flops, tower_flops
from ttm_jax.models.transformer import TowerConfig
from ttm_jax.training import sharding
from ttm_jax.training.communication import lower_step
from ttm_jax.training.optimizer import AdamW


def wide_model(family):
    """Wide enough that matrix products are most of the work, as in real models."""
    model = tiny_model(family)
    towers = {
        name: replace(getattr(model.config, name), width=256, mlp_dim=1024, depth=1, heads=4)
        for name in ("vision", "text")
    }
    config = replace(model.config, embed_dim=256, **towers)
    module = type(model.module)(config)
    size = config.image_size
    shapes = (1, size, size, 3), (1, config.text_length)
    inputs = jax.numpy.zeros(shapes[0]), jax.numpy.zeros(shapes[1], int)
    params = jax.eval_shape(module.init, jax.random.key(0), *inputs)["params"]
    params = jax.tree.map(lambda x: jax.numpy.full(x.shape, 0.01), params)
    return replace(model, config=config, params=params)


@pytest.mark.parametrize("family", ["clip", "siglip"])
def test_the_compiler_counts_the_same_operations_of_a_step(family):
    groups = 16
    model, dataset = wide_model(family), tiny_dataset(groups)
    memory = Memory(remat="none", chunk=0)
    config = TTMConfig(batch_groups=groups, memory=memory)
    mesh = sharding.make_mesh(jax.devices()[:1])
    step = lower_step(model.bind(dataset, config, mesh, 0), AdamW(), groups)
    counted = step.cost_analysis()["flops"]
    parameters = sum(x.size for x in jax.tree.leaves(model.params))
    # AdamW and everything elementwise is in the compiler's count only.
    assert 0 < counted - step_flops(model.config, 2 * groups) < 0.1 * counted + 20 * parameters


def test_full_size_models():
    """ViT-B/32 and ViT-B/16 have 4.4 and 17.5 G multiply-adds; we save most of a last block."""
    base = TowerConfig(768, 12, 12, 3072)
    for patch, known in ((32, 4.41), (16, 17.56)):
        patches = (224 // patch) ** 2
        embedding = 2 * patches * 3 * patch**2 * 768
        whole = embedding + tower_flops(base, patches + 1)
        assert round(whole / 2e9, 2) == known
        clip = CLIPConfig(224, patch, base, TowerConfig(512, 12, 8, 2048), 49408, 77, 512, 49407)
        image, _ = forward_flops(clip)
        assert 11 / 12 < image / whole < 0.96
