"""A contact sheet of groups with their captions, for inspecting a benchmark."""

import textwrap

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ttm_jax.data.groups import GroupedDataset

GAP, TEXT, LINE = 6, 13, 17  # pixels: gap between images, font size, line height
INK, PAPER = (34, 34, 40), (255, 255, 255)


def contact_sheet(dataset: GroupedDataset, columns: int = 4) -> Image.Image:
    """Draw each group of an in-memory dataset as a row of images above its numbered captions."""
    font = ImageFont.load_default(TEXT)
    cells = [
        _cell(dataset, images, texts, font)
        for block in dataset.blocks
        for images, texts in zip(block.image_index, block.text_index, strict=True)
    ]
    width, height = max(c.width for c in cells), max(c.height for c in cells)
    columns = min(columns, len(cells))
    rows = -(-len(cells) // columns)
    sheet = Image.new(
        "RGB", (columns * (width + 3 * GAP) + GAP, rows * (height + 2 * GAP) + GAP), PAPER
    )
    for i, cell in enumerate(cells):
        row, column = divmod(i, columns)
        sheet.paste(cell, (GAP + column * (width + 3 * GAP), GAP + row * (height + 2 * GAP)))
    return sheet


def _cell(
    dataset: GroupedDataset,
    images: np.ndarray,
    texts: np.ndarray,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> Image.Image:
    pictures = [Image.fromarray(np.asarray(dataset.images[i])) for i in images]
    side = pictures[0].height
    width = max(len(pictures) * (side + GAP) - GAP, 2 * side)
    letters = int(width / (TEXT * 0.52))
    lines = [
        line
        for number, i in enumerate(texts)
        for line in textwrap.wrap(f"{number}: {dataset.captions[i]}", letters)
    ]
    cell = Image.new("RGB", (width, side + GAP + LINE * len(lines)), PAPER)
    for i, picture in enumerate(pictures):
        cell.paste(picture, (i * (side + GAP), 0))
    draw = ImageDraw.Draw(cell)
    for i, line in enumerate(lines):
        draw.text((0, side + GAP // 2 + i * LINE), line, fill=INK, font=font)
    return cell
