"""GPT-4.1 on ColorSwap: raw GroupScore and SimpleMatch of VQAScore, four runs, beside the paper's.

    python -m experiments.colorswap_gpt --dry-run --price-input 2 --price-output 8
    python -m experiments.colorswap_gpt --price-input 2 --price-output 8 --budget 20

The key is in the environment (OPENAI_API_KEY). Any server that speaks the same protocol will do:
--base-url and --model name it. docs/api.md has the rest.
"""

from experiments._gpt import main
from ttm_jax.cli.exit_codes import run

if __name__ == "__main__":
    run(lambda: main("colorswap", "colorswap_gpt", __doc__))
