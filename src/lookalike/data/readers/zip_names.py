"""Names in zip archives that do not say how they are encoded: the code page is recognized by what it spells.

A flag or an extra field of a member may say UTF-8. Old programs set neither and write the code page of the machine
that they ran on. Names that are valid UTF-8 are that (macOS); of the code pages below the one counts whose letters
make the most sense; else it is code page 437, as the format says.
"""

import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence

UTF8_FLAG, UNICODE_PATH = 0x800, 0x7075
DEFAULT = "cp437"
SURE = 0.7
"""The share of letters outside ASCII that must make sense."""
WORD = re.compile(r"[^\W\d_]+")


def name_decoder(members: Sequence[zipfile.ZipInfo]) -> tuple[Callable[[zipfile.ZipInfo], str], str]:
    """The function that decodes a member's name, and a note where a code page had to be recognized; empty otherwise."""
    unsaid = [raw for info in members if _said(info) is None and not (raw := _raw(info)).isascii()]
    page, note = DEFAULT, ""
    utf8 = all(map(_is_utf8, unsaid))
    if not utf8:
        found = code_page(unsaid)
        page = found or DEFAULT
        first = unsaid[0].decode(page, "replace")
        how = (
            f"were read as code page {page}"
            if found
            else f"are of no known code page and were read as {page}"
        )
        note = f"names without an encoding in the zip archive {how}, such as {first}"

    def decode(info: zipfile.ZipInfo) -> str:
        said = _said(info)
        if said is not None:
            return said
        return _raw(info).decode("utf-8" if utf8 else page, "replace")

    return decode, note


def code_page(names: Sequence[bytes]) -> str | None:
    """The code page in which these names make the most sense; None if they make sense in none."""
    scores = {page: _sense(names, page, weight) for page, weight in CODE_PAGES.items()}
    best = max(scores, key=lambda page: scores[page])
    return best if scores[best] >= SURE else None


def _sense(names: Sequence[bytes], page: str, weigh: Callable[[str], list[float]]) -> float:
    """The mean weight of the letters outside ASCII; 0 where a name cannot be decoded."""
    weights: list[float] = []
    for raw in names:
        try:
            weights += weigh(raw.decode(page))
        except UnicodeDecodeError:
            return 0.0
    return sum(weights) / len(weights) if weights else 0.0


def _japanese(name: str) -> list[float]:
    """Kana and the more common half of the characters make sense, half-width kana do not."""
    return [
        _by_row(sign, "cp932", 0x88, 0x97, kana="\u3040-\u30ff\u3000-\u301c\uff01-\uff5e")
        for sign in _foreign(name)
    ]


def _chinese(name: str) -> list[float]:
    return [_by_row(sign, "gbk", 0xB0, 0xD7, kana="\u3001-\u3011\uff01-\uff5e") for sign in _foreign(name)]


def _by_row(sign: str, page: str, first: int, last: int, *, kana: str) -> float:
    """1 for kana, punctuation and the rows of common characters, less for rarer ones."""
    if re.fullmatch(f"[{kana}]", sign):
        return 1.0
    raw = sign.encode(page)
    if len(raw) < 2:
        return 0.0
    if first <= raw[0] <= last and (page != "gbk" or raw[1] >= 0xA1):
        return 1.0
    return 0.6 if raw[0] > last and (page != "gbk" or raw[1] >= 0xA1) else 0.1


def _cyrillic(name: str) -> list[float]:
    """Letters of words that are Cyrillic throughout and not in mixed case; capitals alone are rarer."""
    weights = {"[А-ЯЁ]?[а-яё]+": 1.0, "[А-ЯЁ]+": 0.9}
    return _by_word(name, lambda word: max(w * bool(re.fullmatch(form, word)) for form, w in weights.items()))


def _western(name: str) -> list[float]:
    """Accented letters within words of Latin letters that are not in mixed case."""
    latin = "[A-ZÀ-ÖØ-Þ]?[a-zß-öø-ÿ]+|[A-ZÀ-ÖØ-Þß]+"
    return _by_word(name, lambda word: float(bool(re.fullmatch(latin, word) and re.search("[A-Za-z]", word))))


def _by_word(name: str, makes_sense: Callable[[str], float]) -> list[float]:
    words = WORD.findall(name)
    spelled = [makes_sense(word) for word in words for sign in word if ord(sign) > 126]
    return spelled + [0.0] * (len(_foreign(name)) - len(spelled))


def _foreign(name: str) -> list[str]:
    return [sign for sign in name if ord(sign) > 126]


CODE_PAGES: dict[str, Callable[[str], list[float]]] = {
    "cp437": _western,
    "cp850": _western,
    "cp1252": _western,
    "cp866": _cyrillic,
    "cp1251": _cyrillic,
    "cp932": _japanese,
    "gbk": _chinese,
}
"""Code pages and how much sense a name makes in them; of equals the first counts."""


def _raw(info: zipfile.ZipInfo) -> bytes:
    """The bytes of a name, which zipfile has read as code page 437."""
    return info.orig_filename.encode("cp437")


def _said(info: zipfile.ZipInfo) -> str | None:
    """A member's name where the archive says its encoding, by the flag or by the extra field of Info-ZIP."""
    if info.flag_bits & UTF8_FLAG:
        return info.filename
    extra, at = info.extra, 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        field = extra[at + 4 : at + 4 + size]
        said = kind == UNICODE_PATH and len(field) > 5 and field[0] == 1
        if said and int.from_bytes(field[1:5], "little") == zlib.crc32(_raw(info)) and _is_utf8(field[5:]):
            return field[5:].decode("utf-8")
        at += 4 + size
    return None


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
