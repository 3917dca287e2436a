"""Names in zip archives: by the flag, by the extra field, by the code page that makes sense, and said where guessed."""

import struct
import zipfile
import zlib

import pytest
from zoo import encoded

from lookalike.data.read import read
from lookalike.data.readers.zip_names import code_page

NAMES = {
    "cp932": ["猫", "ねこ", "さくら", "写真", "カメラ", "表", "りんご", "新しいフォルダー", "東京タワー"],
    "gbk": ["猫", "苹果", "图片", "新建文件夹", "樱花", "照相机", "红色的花", "汽车"],
    "cp866": ["кошка", "собака", "Фото", "яблоко", "МАШИНЫ", "Новая папка", "ёлка 2"],
    "cp437": ["café", "über", "señal", "Zürich", "crème brûlée", "Äpfel"],
}


def zipped(file, names, *, extra=None):
    """A zip of one image per name (bytes), without the UTF-8 flag; names of other lengths would move the offsets."""
    stand_ins = {}
    with zipfile.ZipFile(file, "w") as bundle:
        for number, raw in enumerate(names):
            stand_in = f"{number:04d}".ljust(len(raw), "x")[: len(raw)]
            stand_ins[stand_in.encode()] = raw
            info = zipfile.ZipInfo(stand_in)
            info.extra = extra(raw) if extra else b""
            bundle.writestr(info, encoded("png"))
    data = file.read_bytes()
    for stand_in, raw in stand_ins.items():
        data = data.replace(stand_in, raw)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("page", NAMES)
def test_names_are_recovered_and_said_to_be_guessed(page, tmp_path):
    names = [f"{name}/{number}.png".encode(page) for number, name in enumerate(NAMES[page])]
    table = read(zipped(tmp_path / "x.zip", names))
    assert set(table.class_names) == set(NAMES[page])
    assert f"code page {page}, such as {NAMES[page][0]}/0.png" in table.notes[0]
    assert read(tmp_path / "x.zip").notes == table.notes  # also when it is in the cache


@pytest.mark.parametrize(("page", "name"), [(page, name) for page in NAMES for name in NAMES[page]])
def test_a_single_name_may_suffice(page, name):
    found = code_page([name.encode(page)])
    if name in ("猫", "写真", "表"):  # so short that it makes sense in more than one
        assert found is not None
    else:
        assert found == page


def test_utf8_needs_no_flag_and_no_note(tmp_path):
    names = [f"{name}/1.png".encode() for name in ("кот", "猫", "über")]
    table = read(zipped(tmp_path / "x.zip", names))
    assert set(table.class_names) == {"кот", "猫", "über"}
    assert not any("code page" in note for note in table.notes)


def test_the_extra_field_of_info_zip_says_the_name(tmp_path):
    true = {b"r\x8fsum\x8f/1.png": "résumé/1.png", b"na\x95ve/1.png": "naïve/1.png"}

    def field(raw):
        content = b"\x01" + struct.pack("<I", zlib.crc32(raw)) + true[raw].encode()
        return struct.pack("<HH", 0x7075, len(content)) + content

    table = read(zipped(tmp_path / "x.zip", list(true), extra=field))
    assert set(table.class_names) == {"résumé", "naïve"}
    assert not any("code page" in note for note in table.notes)


def test_names_of_no_known_code_page_are_read_all_the_same_and_said(tmp_path):
    names = [b"\xff\xfe\xb0/1.png", b"\xb1\xb2\xb3/1.png"]
    table = read(zipped(tmp_path / "x.zip", names))
    assert table.num_classes == 2
    assert "are of no known code page and were read as cp437" in table.notes[0]
