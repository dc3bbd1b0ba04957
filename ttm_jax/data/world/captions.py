"""Meaning and wording of captions, and whether a caption is true of a scene.

A `Claim` is the meaning, a `Wording` the choice of words. All captions of a group share one
wording, so that they differ only in meaning, as in the benchmarks that the world imitates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from types import MappingProxyType

import numpy as np

from ttm_jax.data.world.scene import OPPOSITE, Scene, Thing, related


@dataclass(frozen=True)
class Mention:
    """A description of one kind of object; `None` means the caption omits the attribute."""

    shape: str
    color: str | None = None
    texture: str | None = None
    size: str | None = None
    count: int = 1

    def fits(self, thing: Thing) -> bool:
        return (
            self.shape == thing.shape
            and self.color in (None, thing.color)
            and self.texture in (None, thing.texture)
            and self.size in (None, thing.size)
        )


@dataclass(frozen=True)
class Claim:
    """Mentions, and optionally a relation: the first is left of (right of, ...) the second."""

    mentions: tuple[Mention, ...]
    relation: str | None = None

    @property
    def content(self) -> tuple[frozenset[Mention], tuple[Mention, str] | None]:
        """The meaning regardless of word order: equal for captions that say the same."""
        if self.relation is None:
            return frozenset(self.mentions), None
        first, second = self.mentions
        if self.relation in ("right", "below", "behind"):
            return frozenset(self.mentions), (second, OPPOSITE[self.relation])
        return frozenset(self.mentions), (first, self.relation)

    def holds(self, scene: Scene) -> bool:
        """Whether the claim is true; "a circle" means at least one, "two circles" exactly two."""
        for mention in self.mentions:
            seen = sum(mention.fits(thing) for thing in scene.things)
            if seen < mention.count or (mention.count > 1 and seen != mention.count):
                return False
        if self.relation is None:
            return self._has_distinct_things(scene)
        first, second = self.mentions
        return any(
            first.fits(a) and second.fits(b) and related(a, b, self.relation, i > j)
            for (i, a), (j, b) in permutations(enumerate(scene.things), 2)
        )

    def _has_distinct_things(self, scene: Scene) -> bool:
        """Whether the mentions can be assigned to distinct objects."""
        wanted = [m for m in self.mentions for _ in range(m.count)]
        return any(
            all(m.fits(t) for m, t in zip(wanted, things, strict=True))
            for things in permutations(scene.things, len(wanted))
        )


SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "small": ("small", "little", "tiny"),
        "large": ("large", "big", "huge"),
        "plain": ("plain", "solid"),
        "striped": ("striped",),
        "dotted": ("dotted", "spotted"),
        "checked": ("checked", "checkered"),
        "purple": ("purple", "violet"),
        "turquoise": ("turquoise", "teal"),
        "diamond": ("diamond", "rhombus"),
        "moon": ("moon", "crescent"),
        "drop": ("drop", "teardrop"),
        "bolt": ("bolt", "lightning bolt"),
        "cross": ("cross", "plus sign"),
        "circle": ("circle", "disc"),
    }
)
OPENERS = (
    "",
    "",
    "",
    "a picture of ",
    "an image of ",
    "a drawing of ",
    "a photo of ",
    "there is ",
    "this shows ",
)
JOINERS = (" and ", " and ", " with ", " together with ", " as well as ")
RELATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "left": (" to the left of ", " on the left of ", " left of ", " is to the left of "),
        "right": (" to the right of ", " on the right of ", " right of ", " is to the right of "),
        "above": (" above ", " over ", " higher than ", " is above "),
        "below": (" below ", " under ", " lower than ", " is below "),
        "front": (" in front of ", " in front of ", " in front of ", " is in front of "),
        "behind": (" behind ", " behind ", " behind ", " is behind "),
    }
)
TEXTURE_NOUN: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "striped": ("with stripes", "with a striped pattern"),
        "dotted": ("with dots", "with spots"),
        "checked": ("with checks", "with a checkered pattern"),
    }
)
NUMBERS = ("no", "one", "two", "three")
IRREGULAR_PLURALS: Mapping[str, str] = MappingProxyType(
    {"cross": "crosses", "rhombus": "rhombuses"}
)


@dataclass(frozen=True)
class Wording:
    """One choice of words; the same choices apply to every claim."""

    opener: str
    joiner: str
    relation: int  # index into each entry of RELATIONS
    synonym: Mapping[str, str]
    texture_noun: int | None  # "striped circle" when None, else "circle with stripes"


def draw_wording(rng: np.random.Generator) -> Wording:
    picks = rng.random(5 + len(SYNONYMS))
    # The first synonym is the most common word and is chosen with probability at least one half.
    synonym = {
        word: options[max(0, int((2 * pick - 1) * len(options)))]
        for pick, (word, options) in zip(picks[5:], SYNONYMS.items(), strict=True)
    }
    return Wording(
        opener=OPENERS[int(picks[0] * len(OPENERS))],
        joiner=JOINERS[int(picks[1] * len(JOINERS))],
        relation=int(picks[2] * 4),
        synonym=MappingProxyType(synonym),
        texture_noun=int(picks[4] * 2) if picks[3] < 0.25 else None,
    )


PLAIN_WORDING = Wording("", " and ", 0, MappingProxyType({}), None)


def say(claim: Claim, wording: Wording = PLAIN_WORDING) -> str:
    """Word a claim as a caption."""
    parts = [_phrase(mention, wording) for mention in claim.mentions]
    if claim.relation is not None:
        first, second = parts
        link = RELATIONS[claim.relation][wording.relation]
        # "a picture of a star is above a moon" is not grammatical.
        opener = "" if link.startswith(" is ") else wording.opener
        return opener + first + link + second
    if len(parts) == 3:
        return f"{wording.opener}{parts[0]}, {parts[1]} and {parts[2]}"
    return wording.opener + wording.joiner.join(parts)


def _phrase(mention: Mention, wording: Wording) -> str:
    def word(name: str) -> str:
        return wording.synonym.get(name, name)

    texture = mention.texture
    after = texture in TEXTURE_NOUN and wording.texture_noun is not None
    adjectives = [mention.size, None if after else texture, mention.color]
    noun = word(mention.shape)
    if mention.count > 1:
        noun = IRREGULAR_PLURALS.get(noun, noun + "s")
    words = [word(a) for a in adjectives if a is not None] + [noun]
    if mention.count > 1:
        words.insert(0, NUMBERS[mention.count])
    else:
        words.insert(0, "an" if words[0][0] in "aeiou" else "a")
    if after and texture is not None and wording.texture_noun is not None:
        words.append(TEXTURE_NOUN[texture][wording.texture_noun])
    return " ".join(words)
