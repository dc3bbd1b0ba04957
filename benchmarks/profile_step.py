"""Time of a training step by part, compared with PyTorch.

    python benchmarks/profile_step.py                     # SigLIP-B16 and CLIP-B32, 8 pairs
    python benchmarks/profile_step.py --models clip-b32 --parts loss AdamW step

Parts of one block of the image tower (attention without and with its projections, MLP, norm, the
whole block), both towers, the whole loss with its gradient, AdamW, and the step made of the last
two. "forward" computes only the outputs; "both" also the gradients with respect to all parameters
and the input. GFLOP/s counts the matrix products.
"""

import statistics
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from _models import NAMES, Name, Sizes, torch_model, weight_writer
from _results import Results
from _sides import Parts, Seconds, Side, cpu, machine, make_console, ratio, take_turns
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

BLOCK_PARTS = ("attention core", "attention", "mlp", "norm", "block")
STEP_PARTS = ("image tower", "text tower", "loss")
PARTS = (
    *(f"{part}, {way}" for part in (*BLOCK_PARTS, *STEP_PARTS) for way in ("forward", "both")),
    "AdamW",
    "step",
)


def jax_parts(folder: str, batch: int) -> Parts:
    """The package's own modules, each compiled separately."""
    import ttm_jax

    model = ttm_jax.load_model(folder)
    return {**_jax_block(model, batch), **_jax_towers(model, batch), **_jax_step(model, batch)}


def _jax_calls(name: str, function: Any, *args: Any) -> Parts:
    """`function(*args)` without and with the gradient with respect to all of `args`."""
    import jax
    import jax.numpy as jnp

    shape = jax.eval_shape(function, *args)
    cotangent = jax.random.normal(jax.random.key(0), shape.shape, jnp.float32)
    forward = jax.jit(function)
    both = jax.jit(lambda g, *args: jax.vjp(function, *args)[1](g))
    return {
        f"{name}, forward": partial(_wait, forward, *args),
        f"{name}, both": partial(_wait, both, cotangent, *args),
    }


def _wait(function: Any, *args: Any) -> None:
    import jax

    jax.block_until_ready(function(*args))


def _jax_block(model: Any, batch: int) -> Parts:
    """The first block of the image tower and its parts."""
    import jax
    import jax.numpy as jnp

    from ttm_jax.models import transformer
    from ttm_jax.models.attention import attend

    tower = model.config.vision
    tokens = model.config.patches + (model.family == "clip")
    x = jax.random.normal(jax.random.key(1), (batch, tokens, tower.width))
    heads = x.reshape(batch, tokens, tower.heads, -1).transpose(0, 2, 1, 3)
    layer = jax.tree.map(
        lambda p: jnp.asarray(p[0]), model.params["img"]["Transformer"]["encoderblock"]
    )

    def of(module: Any) -> Any:
        return lambda p, *inputs: module.apply({"params": p}, *inputs)

    attention, mlp = transformer.Attention(tower), transformer.Mlp(tower)
    norm, block = transformer.layer_norm(tower, "LayerNorm_0"), transformer.Block(tower)
    core = partial(attend, precision=tower.compute.precision)
    return {
        **_jax_calls("attention core", core, heads, heads, heads),
        **_jax_calls(
            "attention",
            lambda p, x: of(attention)(p, x, x),
            layer["MultiHeadDotProductAttention_0"],
            x,
        ),
        **_jax_calls("mlp", of(mlp), layer["MlpBlock_0"], x),
        **_jax_calls("norm", of(norm), layer["LayerNorm_0"], x),
        **_jax_calls("block", of(block), layer, x),
    }


def _jax_inputs(model: Any, batch: int) -> tuple[Any, Any]:
    """Pixels [B, 1, S, S, 3] and full-length captions [B, 1, L]: groups of 1 x 1."""
    import numpy as np

    c, rng = model.config, np.random.default_rng(0)
    pixels = rng.normal(size=(batch, 1, c.image_size, c.image_size, 3)).astype(np.float32)
    ids = rng.integers(3, 1000, (batch, 1, c.text_length)).astype(np.int32)
    ids[:, :, -1] = c.vocab_size - 1  # CLIP's eos
    return pixels, ids


def _jax_towers(model: Any, batch: int) -> Parts:
    import jax
    import jax.numpy as jnp

    params = jax.tree.map(jnp.asarray, model.params)
    pixels, ids = _jax_inputs(model, batch)

    def encoder(side: str, method: str, inputs: Any) -> Any:
        rest = {key: value for key, value in params.items() if key != side}
        return lambda p: model.module.apply({"params": {**rest, side: p}}, inputs, method=method)

    image = encoder("img", "encode_image", jnp.asarray(pixels[:, 0]))
    text = encoder("txt", "encode_text", jnp.asarray(ids[:, 0]))
    return {
        **_jax_calls("image tower", image, params["img"]),
        **_jax_calls("text tower", text, params["txt"]),
    }


@dataclass(frozen=True)
class JaxStep:
    """Loss, gradient and update, as a run computes them."""

    task: Any
    state: Any  # parameters and moments
    rest: tuple[Any, ...]  # what the loss takes after the parameters
    adam: Any

    @classmethod
    def of(cls, model: Any, batch: int) -> "JaxStep":
        import jax
        import numpy as np

        from ttm_jax import TTMConfig
        from ttm_jax.data.groups import GroupedDataset
        from ttm_jax.training import sharding, trainer
        from ttm_jax.training.optimizer import AdamW
        from ttm_jax.training.task import Examples

        dataset = GroupedDataset.from_arrays(*_jax_inputs(model, batch))
        task = model.bind(dataset, TTMConfig(batch_groups=batch), sharding.make_mesh(), 0)
        pairs, true = np.arange(batch, dtype=np.int32)[:, None], np.ones((batch, 1), bool)
        examples = Examples(pairs, pairs, true, true)
        rest, adam = (task.initial.frozen, task.data, examples, jax.random.key(0)), AdamW()
        start = trainer.Trainer(task, adam).start(task.initial.trained)
        return cls(task, (start.trained, start.optimizer), rest, adam)

    def compiled(self) -> Any:
        """The program of one step, (parameters and moments, learning rate) -> the same."""
        import jax
        import jax.numpy as jnp

        objective, adam, rest = self.task.objective, self.adam, self.rest

        def one(s: Any, lr: Any) -> Any:
            gradient = objective.value_and_grad(s[0], *rest)[1]
            with jax.named_scope("AdamW"):
                return adam.update(s[0], gradient, s[1], lr)

        return jax.jit(one, donate_argnums=0).lower(self.state, jnp.float32(1e-5)).compile()


def _jax_step(model: Any, batch: int) -> Parts:
    import jax
    import jax.numpy as jnp

    whole = JaxStep.of(model, batch)
    inputs, objective = (whole.task.initial.trained, *whole.rest), whole.task.objective
    loss = jax.jit(lambda *args: objective.value_and_grad(*args)[0])
    gradient = jax.jit(objective.value_and_grad)
    grads = jax.tree.map(lambda p: jnp.full_like(p, 1e-3), whole.state[0])
    update = jax.jit(lambda s, g, lr: whole.adam.update(s[0], g, s[1], lr), donate_argnums=0)
    state, one = [whole.state], cache(whole.compiled)

    def update_once() -> None:
        state[0] = jax.block_until_ready(update(state[0], grads, jnp.float32(1e-5)))

    def step() -> None:
        state[0] = jax.block_until_ready(one()(state[0], jnp.float32(1e-5)))

    return {
        "loss, forward": partial(_wait, loss, *inputs),
        "loss, both": partial(_wait, gradient, *inputs),
        "AdamW": update_once,
        "step": step,
    }


def torch_parts(folder: str, batch: int) -> Parts:
    """transformers' modules with the same shapes."""
    model = torch_model(folder)
    return {**_torch_block(model, batch), **torch_step_parts(model, batch)}


def _torch_calls(name: str, function: Any, *leaves: Any) -> Parts:
    import torch

    with torch.no_grad():
        cotangent = torch.randn(function().shape)

    def forward() -> None:
        with torch.inference_mode():
            function()

    def both() -> None:
        for leaf in leaves:
            leaf.grad = None
        function().backward(cotangent)

    return {f"{name}, forward": forward, f"{name}, both": both}


def _torch_block(model: Any, batch: int) -> Parts:
    import torch

    vision, layer = model.config.vision_config, model.vision_model.encoder.layers[0]
    tokens = (vision.image_size // vision.patch_size) ** 2 + (model.config.model_type == "clip")
    x = torch.randn(batch, tokens, vision.hidden_size, requires_grad=True)
    heads = (batch, vision.num_attention_heads, tokens)
    head_dim = vision.hidden_size // vision.num_attention_heads
    q, k, v = (torch.randn(*heads, head_dim, requires_grad=True) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention

    def of(name: str, module: Any, function: Any) -> Parts:
        return _torch_calls(name, function, x, *module.parameters())

    return {
        **_torch_calls("attention core", lambda: attend(q, k, v), q, k, v),
        **of("attention", layer.self_attn, lambda: layer.self_attn(x)[0]),
        **of("mlp", layer.mlp, lambda: layer.mlp(x)),
        **of("norm", layer.layer_norm1, lambda: layer.layer_norm1(x)),
        **of("block", layer, lambda: layer(x, attention_mask=None)),
    }


def torch_step_parts(model: Any, batch: int) -> Parts:
    import torch

    vision, text = model.config.vision_config, model.config.text_config
    pixels = torch.randn(batch, 3, vision.image_size, vision.image_size)
    ids = torch.randint(3, 1000, (batch, text.max_position_embeddings))
    ids[:, -1] = text.vocab_size - 1
    leaves = list(model.parameters())

    def image() -> Any:
        return model.get_image_features(pixels).pooler_output

    def texts() -> Any:
        return model.get_text_features(ids).pooler_output

    def loss() -> Any:
        return model(pixel_values=pixels, input_ids=ids, return_loss=True).loss

    optimizer = torch.optim.AdamW(leaves, lr=1e-5, weight_decay=0.05)

    def update() -> None:
        for p in leaves:
            p.grad = torch.full_like(p, 1e-3) if p.grad is None else p.grad
        optimizer.step()

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return {
        **_torch_calls("image tower", image, *leaves),
        **_torch_calls("text tower", texts, *leaves),
        **_torch_calls("loss", loss, *leaves),
        "AdamW": update,
        "step": step,
    }


def block_gflop(part: str, batch: int, sizes: Sizes) -> float | None:
    """Matrix products of the forward pass of a part of one block, in 1e9 operations."""
    rows, width, mlp = batch * sizes.tokens, sizes.width, sizes.mlp
    core = 4 * rows * sizes.tokens * width
    dense = {"attention": 8 * rows * width**2, "mlp": 4 * rows * width * mlp}
    total = {
        "attention core": core,
        "attention": core + dense["attention"],
        "mlp": dense["mlp"],
        "block": core + dense["attention"] + dense["mlp"],
    }
    return total[part] / 1e9 if part in total else None


def show(
    console: Console, seconds: dict[str, list[list[Seconds]]], gflop: dict[str, float]
) -> None:
    table = Table(box=SIMPLE_HEAD)
    for name in ("part", "ttm_jax ms", "PyTorch ms", "ratio", "CPU time", "GFLOP/s", "of PyTorch"):
        table.add_column(name, justify="left" if name == "part" else "right")
    for part, (ours, theirs) in seconds.items():
        rates = ["", ""]
        if part in gflop:
            rates = [f"{gflop[part] / statistics.median(s):.0f}" for s in (ours, theirs)]
        times = [f"{1e3 * statistics.median(s):.1f}" for s in (ours, theirs)]
        ratios = (ratio(ours, theirs), ratio(cpu(ours), cpu(theirs)))
        table.add_row(part, *times, *(f"{x:.2f}" for x in ratios), *rates)
    console.print(table)


def measure(
    name: Name, chosen: list[str], batch: int, repeats: int, tiny: bool, results: Results
) -> None:
    """Show the parts of one model's step, and add them to the rows."""
    console = make_console()
    label = f"{name}{' (tiny)' if tiny else ''}, {batch} pairs"
    console.print(f"{label}, {machine()}")
    with TemporaryDirectory() as folder:
        writer = Side("weights", weight_writer, name, tiny, folder)
        sizes = writer.run("write")[1]
        writer.close()
        sides = [
            Side("ttm_jax", jax_parts, folder, batch, huge_pages=True),
            Side("PyTorch", torch_parts, folder, batch),
        ]
        seconds, gflop = {}, {}
        for part in chosen:
            for side in sides:  # compile and warm up
                side.run(part)
            seconds[part] = take_turns(sides, part, repeats)
            results.turns(label, f"{part}: s", *seconds[part])
            of, _, way = part.partition(", ")
            work = block_gflop(of, batch, sizes)
            if work is not None:
                gflop[part] = work * (3 if way == "both" else 1)
        for side in sides:
            side.close()
    show(console, seconds, gflop)


def main(
    models: tuple[Name, ...] = NAMES,
    batch: int = 8,
    repeats: int = 7,
    parts: tuple[str, ...] = (),
    quick: bool = False,
    json: Path | None = None,
) -> None:
    """Time the parts of a training step.

    Args:
        models: siglip-b16, clip-b32, with random weights.
        batch: number of pairs.
        repeats: number of turns; medians are shown.
        parts: only parts whose names start with one of these ("attention", "loss", "AdamW").
        quick: use a tiny model, to check that the benchmark runs.
        json: file to write the rows to as well.
    """
    results = Results("training step")
    chosen = [p for p in PARTS if not parts or p.startswith(parts)]
    for name in models:
        measure(name, chosen, batch, repeats, quick, results)
    results.save(json)


if __name__ == "__main__":
    tyro.cli(main)
