"""Tokenizer and processor files of a small SmolVLM, in the same formats as the large one."""

from collections.abc import Iterable
from pathlib import Path

from ttm_jax.errors import InputError
from ttm_jax.files import write_json
from ttm_jax.inputs.vlm_prompt import END, FRAME, GLOBAL, IMAGE, START

ROWS = COLUMNS = 4
BEGINNING = ("<|endoftext|>", START, "<|im_end|>")  # ids 0, 1 and 2; the last one pads
# Equivalent to the published template: role, image and text, end; then the answering role.
CHAT_TEMPLATE = (
    f"{START}{{% for m in messages %}}{{{{ m['role'] | capitalize }}}}"
    "{{ ':' if m['content'][0]['type'] == 'image' else ': ' }}"
    f"{{% for part in m['content'] %}}{{{{ '{IMAGE}' if part['type'] == 'image' "
    "else part['text'] }}{% endfor %}"
    f"{END}\n{{% endfor %}}{{% if add_generation_prompt %}}Assistant:{{% endif %}}"
)


def write_vlm_files(
    folder: Path,
    texts: Iterable[str],
    *,
    vocabulary: int,
    image_size: int,
    tile_tokens: int,
    splitting: bool = False,
    longest: int | None = None,
) -> int:
    """Learn a byte-level encoding from the texts; return the id of `<image>`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(BEGINNING),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sorted(set(texts)), trainer)
    places = [f"<row_{r + 1}_col_{c + 1}>" for r in range(ROWS) for c in range(COLUMNS)]
    tokenizer.add_special_tokens([GLOBAL, *places, FRAME, IMAGE, END])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "additional_special_tokens": [FRAME, IMAGE, END],
    }
    write_json(folder / "tokenizer_config.json", settings)
    write_json(folder / "chat_template.json", {"chat_template": CHAT_TEMPLATE})
    write_json(
        folder / "processor_config.json",
        {"image_seq_len": tile_tokens, "processor_class": "Idefics3Processor"},
    )
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "Idefics3ImageProcessor",
            "processor_class": "Idefics3Processor",
            "do_convert_rgb": True,
            "do_image_splitting": splitting,
            "do_normalize": True,
            "do_pad": True,
            "do_rescale": True,
            "do_resize": True,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "max_image_size": {"longest_edge": image_size},
            "resample": 1,
            "rescale_factor": 1 / 255,
            "size": {"longest_edge": longest or image_size},
        },
    )
    image = tokenizer.token_to_id(IMAGE)
    if image is None:  # the library adds every token it is asked to add
        raise InputError(f"{folder}: the tokenizer has no {IMAGE}")
    return image
