"""A built-in data set, `glyphs`: letters of many scripts in the faces of the fonts that matplotlib brings.

It needs no download, is drawn in seconds, and has what real data has: many classes, unseen classes to test
on, a coarser level (the script), and difficulty from faces, distortion, color and noise. A character is a
class when at least four faces have it; characters that look alike in every face that both have (Latin A,
Greek Alpha, Cyrillic A; o and O, since size is random) are one class, called after the first of them.
The images are ordinary JPEG files, so they take the same path as anybody's data.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from lookalike.data.dataset import CoarseLevel, LabeledImages, number_labels
from lookalike.data.readers.tables import read_table
from lookalike.data.readers.written_tables import write_table
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.cached_folder import make_folder
from lookalike.utils.hashing import hash_text

VERSION = 1  # goes into the cache's key: raise it whenever the drawings change
SIDE = 96
PER_CLASS = 20
TEST_SHARE = 0.4
LEAST_FACES = 4
ALIKE = 0.935  # correlation of two letters from which on they look alike in a face ...
ALIKE_CASES = 0.8  # the same for a capital and its own small letter
ALIKE_FACES = 0.4  # ... and the share of the faces that both have from which on they are one class

SCRIPTS: dict[str, Iterable[int]] = {
    "latin": [*range(0x32, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B), 0xC6, 0xD0, 0xDE, 0xDF, 0xE6, 0xF0],
    "greek": range(0x391, 0x3CA),
    "cyrillic": [*range(0x410, 0x450), 0x402, 0x404, 0x409, 0x40A, 0x40F, 0x462, 0x46A, 0x472],
    "armenian": range(0x531, 0x588),
    "georgian": range(0x10D0, 0x10F1),
    "hebrew": range(0x5D0, 0x5EB),
    "arabic": range(0x621, 0x64B),
}
TEXT_FACES = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "STIXGeneral")
TEX_FACES = ("cmr10", "cmb10", "cmss10", "cmtt10", "cmti10", "cmmi10")  # Unicode only for plain Latin letters
PLAIN = frozenset([*range(0x41, 0x5B), *range(0x61, 0x7B)])


@dataclass(frozen=True)
class Character:
    """One class: a character, its script, and the faces (font files) that draw it."""

    code: int
    script: str
    faces: tuple[Path, ...]

    @property
    def name(self) -> str:
        return unicodedata.name(chr(self.code)).lower().replace(" ", "_")


def draw_glyphs(
    cache_dir: Path | None = None, seed: int = 0, *, per_class: int | None = None
) -> LabeledImages:
    """The data set, drawn on the first call and found in the cache after that.

    Args:
        cache_dir: where to keep it; default the package's cache.
        seed: chooses distortions, colors, noise and which characters test.
        per_class: images of each character; default 20.
    """
    per_class = PER_CLASS if per_class is None else per_class
    home = (cache_folder() if cache_dir is None else cache_dir) / "glyphs"
    folder = home / f"v{VERSION}-seed{seed}-{per_class}"
    make_folder(folder, lambda temporary: _draw_all(temporary, seed, per_class))
    _mask.cache_clear()
    table = read_table(folder / "glyphs.csv")
    return LabeledImages(
        table.root, table.paths, table.labels, table.class_names, table.coarse, table.split, name="glyphs"
    )


def _draw_all(folder: Path, seed: int, per_class: int) -> None:
    characters = distinct_characters()
    tests = set(_in_hash_order(characters, seed)[: round(TEST_SHARE * len(characters))])
    paths, raw, split = [], [], []
    for character in characters:
        (folder / character.name).mkdir()
        for i, image in enumerate(images_of(character, seed, per_class)):
            path = f"{character.name}/{i:02d}.jpg"
            image.save(folder / path, quality=90)
            paths.append(path)
            raw.append(character.name)
            split.append("test" if character in tests else "train")
    labels, names = number_labels(raw)
    script_of = {character.name: character.script for character in characters}
    parents, scripts = number_labels([script_of[name] for name in names])
    level = CoarseLevel("coarse_script", parents, scripts)
    table = LabeledImages(folder, tuple(paths), labels, names, (level,), np.array(split), name="glyphs")
    write_table(table, folder / "glyphs.csv")


def images_of(character: Character, seed: int, count: int) -> Iterator[Image.Image]:
    """`count` images of one character, its faces taking turns; they depend on the seed and it alone."""
    draws = np.random.default_rng((seed, character.code))
    faces = draws.permutation(len(character.faces))
    for i in range(count):
        yield _distorted(_mask(character.code, character.faces[faces[i % len(faces)]]), draws)


def _in_hash_order(characters: tuple[Character, ...], seed: int) -> list[Character]:
    return sorted(characters, key=lambda c: hash_text(f"{seed}:{c.code}"))


def _distorted(mask: Image.Image, draws: np.random.Generator) -> Image.Image:
    """One image: the letter turned, sheared, scaled, moved, colored, blurred, with grain."""
    angle = np.deg2rad(draws.uniform(-8, 8))
    shear, stretch = draws.uniform(-0.12, 0.12), draws.uniform(0.92, 1.08)
    scale = draws.uniform(0.75, 1.0)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shape = turn @ np.array([[1.0, shear], [0.0, 1.0]]) @ np.diag([stretch, 1 / stretch]) * scale
    back = np.linalg.inv(shape) * (MASK_SIDE / SIDE)
    shift = draws.uniform(-0.06, 0.06, 2) * SIDE
    offset = MASK_SIDE / 2 - back @ (SIDE / 2 + shift)
    matrix = (back[0, 0], back[0, 1], offset[0], back[1, 0], back[1, 1], offset[1])
    drawn = mask.transform((SIDE, SIDE), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    drawn = drawn.filter(ImageFilter.GaussianBlur(draws.uniform(0.3, 1.4)))
    ink, paper = _colors(draws)
    ramp = np.linspace(-1, 1, SIDE)[:, None, None]
    ramp = ramp if draws.random() < 0.5 else ramp.transpose(1, 0, 2)
    amount = np.asarray(drawn, np.float32)[:, :, None] / 255
    pixels = paper + (ink - paper) * amount + draws.uniform(-20, 20) * ramp
    pixels += draws.uniform(1, 10) * draws.standard_normal((SIDE, SIDE, 1), np.float32)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _colors(draws: np.random.Generator) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Ink and paper, the paper lighter; both a little tinted."""
    tints = draws.uniform(-25, 25, (2, 3))
    return draws.uniform(0, 80) + tints[0], draws.uniform(175, 255) + tints[1]


MASK_SIDE = 128
LETTER_SIDE = 92  # the longer side of a letter inside the mask


@cache
def _font(face: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(face), size, layout_engine=ImageFont.Layout.BASIC)


@cache
def _mask(code: int, face: Path) -> Image.Image:
    """The letter in white on black, its longer side LETTER_SIDE, in the middle of a square."""
    text = chr(code)
    left, top, right, bottom = _font(face, 100).getbbox(text)
    longer = max(right - left, bottom - top, 1)
    font = _font(face, max(10, min(400, round(100 * LETTER_SIDE / longer))))
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("L", (MASK_SIDE, MASK_SIDE))
    at = ((MASK_SIDE - right - left) / 2, (MASK_SIDE - bottom - top) / 2)
    ImageDraw.Draw(image).text(at, text, fill=255, font=font)
    return image


@cache
def distinct_characters() -> tuple[Character, ...]:
    """The classes: characters with enough faces, those that look like an earlier one left out."""
    known = _available()
    shared = np.zeros((len(known), len(known)))
    alike = np.zeros_like(shared)
    least = np.array([[_threshold(a.code, b.code) for b in known] for a in known], np.float32)
    for face in sorted({face for character in known for face in character.faces}):
        at = np.array([i for i, character in enumerate(known) if face in character.faces])
        looks_NP = np.stack([_look(_mask(known[i].code, face)) for i in at.tolist()])
        shared[np.ix_(at, at)] += 1
        alike[np.ix_(at, at)] += looks_NP @ looks_NP.T > least[np.ix_(at, at)]
    same = (alike >= ALIKE_FACES * shared) & (shared > 0)
    kept: list[int] = []
    for i in range(len(known)):
        if not same[i, kept].any():
            kept.append(i)
    return tuple(known[i] for i in kept)


def _threshold(one: int, other: int) -> float:
    return ALIKE_CASES if chr(one).lower() == chr(other).lower() else ALIKE


def _look(mask: Image.Image) -> npt.NDArray[np.float32]:
    """What is compared: the letter stretched to a square, blurred a little, mean 0 and norm 1."""
    square = Image.new("L", (40, 40))
    square.paste(mask.crop(mask.getbbox()).resize((32, 32), Image.Resampling.BOX), (4, 4))
    look = np.asarray(square.filter(ImageFilter.GaussianBlur(1)), np.float32).ravel()
    look = look - look.mean()
    result: npt.NDArray[np.float32] = look / np.linalg.norm(look)
    return result


def _available() -> list[Character]:
    """Every character of SCRIPTS with the faces whose character map has it."""
    import matplotlib
    from matplotlib.ft2font import FT2Font

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    text = [
        f for f in sorted(folder.glob("*.ttf")) if f.stem.startswith(TEXT_FACES) and "Display" not in f.stem
    ]
    maps = {face: frozenset(FT2Font(str(face)).get_charmap()) for face in text}
    tex = tuple(folder / f"{name}.ttf" for name in TEX_FACES)
    result = []
    for script, codes in SCRIPTS.items():
        for code in codes:
            faces = tuple(face for face in text if code in maps[face])
            if len(faces) >= LEAST_FACES and unicodedata.category(chr(code)) in ("Lu", "Ll", "Lo", "Nd"):
                result.append(Character(code, script, faces + (tex if code in PLAIN else ())))
    return result
