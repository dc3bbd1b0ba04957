"""GPT-4.1 on Winoground: raw GroupScore and SimpleMatch of VQAScore, four runs, beside the paper's.

    python -m experiments.winoground_gpt --dry-run --price-input 2 --price-output 8
    python -m experiments.winoground_gpt --price-input 2 --price-output 8 --budget 20

The key is in the environment (OPENAI_API_KEY). Any server that speaks the same protocol will do:
--base-url and --model name it. docs/api.md has the rest.
"""

from experiments._gpt import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main("winoground", "winoground_gpt", __doc__))
