"""What a training step computes and sends on 1, 2, 4 and 8 devices, counted, not timed.

    python benchmarks/communication.py

The devices are virtual: they share this machine's cores, so seconds would say nothing. Counted are
the operations and the collectives of the compiled program, for the same batch on more devices
(strong scaling) and for a batch that grows with them (weak scaling).
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from dataclasses import dataclass

import jax
import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ttm_jax.config import TTMConfig
from ttm_jax.data import world
from ttm_jax.load import load_model
from ttm_jax.training import sharding
from ttm_jax.training.communication import collectives, compile_step, sent_bytes
from ttm_jax.training.optimizer import AdamW


@dataclass(frozen=True)
class Args:
    model: str = "small-siglip"
    """Any checkpoint that `load_model` opens."""
    groups: int = 24
    """Groups of two images and two captions: per device for weak scaling, in all for strong."""
    placements: tuple[str, ...] = ("replicated", "sharded")
    """How parameters are placed."""


def main() -> None:
    args = tyro.cli(Args, description=__doc__)
    model = load_model(args.model)
    table = Table(box=SIMPLE_HEAD)
    for name in ("scaling", "placement", "devices", "pairs", "GFLOP/device", "MB sent/device",
                 "MB state/device"):  # fmt: skip
        table.add_column(name, justify="right")
    for placement in args.placements:
        for kind in ("strong", "weak"):
            for devices in (1, 2, 4, 8):
                if placement == "sharded" and (kind == "weak" or devices == 1):
                    continue
                groups = args.groups * (devices if kind == "weak" else 1)
                table.add_row(kind, placement, *row(model, devices, groups, placement))
    Console(width=120).print(table)


def row(model, devices: int, groups: int, placement) -> list[str]:
    mesh = sharding.make_mesh(jax.devices()[:devices])
    config = TTMConfig(batch_groups=groups, placement=placement)
    task = model.bind(world.make("color_swap", groups=groups), config, mesh, 0)
    step = compile_step(task, AdamW(), groups, placement)
    sent = sent_bytes(collectives(step.as_text()), devices)
    data = sum(x.nbytes for x in jax.tree.leaves(task.data))
    state = step.memory_analysis().argument_size_in_bytes - data
    counts = (step.cost_analysis()["flops"] / 1e9, sent / 1e6, state / 1e6)
    return [str(devices), str(2 * groups), *(f"{count:.2f}" for count in counts)]


if __name__ == "__main__":
    main()
