"""One of two processes that share a run: python two_hosts.py RANK PORT FOLDER PLACEMENT."""

import os
import sys
from dataclasses import replace
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
)
sys.path.insert(0, str(Path(__file__).parent))


def main(rank: int, port: str, folder: Path, placement: str) -> None:
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
    assert len(jax.devices()) == 4

    import numpy as np
    from tiny import CONFIG, tiny_dataset, tiny_model

    from ttm_jax.engine.ttm import run_ttm

    config = replace(CONFIG, placement=placement, keep_opt_state=True)
    result = run_ttm(tiny_model("clip"), tiny_dataset(), config, folder / "run")
    np.save(folder / f"scores_{rank}.npy", result.scores)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4])
