"""A whole run in its own process, to be killed: python killable_run.py FOLDER [KEEP]."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import jax
from tiny import tiny_dataset, tiny_model

from ttm_jax.cli.exit_codes import run
from ttm_jax.config import TTMConfig
from ttm_jax.engine.ttm import run_ttm
from ttm_jax.training import trainer

# Many short calls, so that a signal arrives during an iteration.
CONFIG = TTMConfig(lr=1e-3, iterations=4, epochs=12, batch_groups=3, coverage=0.3)


def slowly(original):
    def fit(self, *args, on_steps=lambda step, loss: None, **kwargs):
        def report(step, loss):
            print("step", step, flush=True)
            time.sleep(0.02)
            on_steps(step, loss)

        return original(self, *args, on_steps=report, **kwargs)

    return fit


def main() -> None:
    trainer.SECONDS_PER_CALL = 0.0  # one step per call
    trainer.Trainer.fit = slowly(trainer.Trainer.fit)
    keep = len(sys.argv) > 2
    config = TTMConfig(**{**CONFIG.__dict__, "keep_opt_state": keep})
    run_ttm(tiny_model(), tiny_dataset(), config, sys.argv[1], seed=3, devices=jax.devices()[:1])


if __name__ == "__main__":
    run(main)
