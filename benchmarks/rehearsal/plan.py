"""What is rehearsed: for each of the paper's models, the commands that a user types."""

from dataclasses import dataclass

from ttm_jax.data.paper.models import MODELS


@dataclass(frozen=True)
class Rehearsed:
    """One experiment of a model, and what is done with its run afterwards."""

    model: str
    """A name in `MODELS`."""
    source: str
    """Where its data come from: a source of `BENCHMARKS`."""
    experiment: str
    flags: tuple[str, ...]
    run: str
    """The folder of the seed, as the experiment names it."""
    before: tuple[tuple[str, ...], ...] = ()
    """Commands before the experiment."""

    @property
    def command(self) -> tuple[str, ...]:
        return ("python", "-m", f"experiments.{self.experiment}", *self.flags, "--seeds", "0")

    @property
    def after(self) -> tuple[tuple[str, ...], ...]:
        """Look at the run, export its model, and load that as any other folder."""
        pictures = ("pictures/0.jpg", "pictures/1.jpg")
        texts = ("a dog on a table", "a table on a dog")
        return (
            ("ttm", "report", self.run, "-o", "report.html"),
            ("ttm", "inspect", self.run),
            ("ttm", "inspect", "--diff", MODELS[self.model], self.run),
            ("ttm", "export", self.run, "adapted"),
            ("ttm", "score", "--model", "adapted", "--images", *pictures, "--captions", *texts),
        )


# Few groups, and few epochs where a step of the full-size model takes long on a CPU.
_TWO = ("--iterations", "2")
_SHORT = ("--epochs", "2")
REHEARSED = {
    rehearsed.model: rehearsed
    for rehearsed in (
        Rehearsed(
            "clip_b32", "whatsup", "whatsup_clip", ("--variant", "a", "--limit", "6", *_TWO),
            "runs/whatsup_clip/a/seed_0",
            # What is served is not the release, whose checksums are known.
            before=(("ttm", "data", "whatsup_a", "--allow-changed"),),
        ),
        Rehearsed(
            "clip_b16", "winoground", "winoground_clip", ("--limit", "6", *_TWO, *_SHORT),
            "runs/winoground_clip/seed_0",
        ),
        Rehearsed(
            "siglip_b16", "mmvp_vlm", "mmvp_siglip", ("--limit", "6", *_TWO),
            "runs/mmvp_siglip/seed_0",
        ),
        Rehearsed(
            "smolvlm_256m", "mmvp_vlm", "mmvp_smolvlm",
            ("--limit", "1", *_TWO, "--epochs", "1"), "runs/mmvp_smolvlm/seed_0",
        ),
        Rehearsed(
            "siglip_l16", "colorswap", "colorswap_siglip_l16",
            ("--limit", "2", *_TWO, *_SHORT), "runs/colorswap_siglip_l16/seed_0",
        ),
    )
}  # fmt: skip
# All sixteen variants, downloaded and checked, without a model.
DATA = "data"
DATA_COMMANDS = (
    ("ttm", "data", "paper", "--allow-changed"),
    ("ttm", "data", "paper", "--check", "--allow-changed"),
)
