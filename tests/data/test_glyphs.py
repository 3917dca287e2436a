import numpy as np
import pytest
from PIL import Image

from lookalike.data import glyphs
from lookalike.data.read import read


@pytest.fixture(scope="module")
def characters():
    return glyphs.distinct_characters()


@pytest.fixture(scope="module")
def drawn(characters, tmp_path_factory):
    """The data set with two images a class."""
    return glyphs.draw_glyphs(tmp_path_factory.mktemp("glyphs"), per_class=2)


def test_hundreds_of_classes_of_several_scripts(characters):
    assert len(characters) > 200
    assert {c.script for c in characters} == set(glyphs.SCRIPTS)


@pytest.mark.parametrize("group", ["AΑА", "oOоΟ", "cCсС", "BΒВ", "XxΧх", "nո", "lI", "Йй", "Жж", "Pp"])
def test_letters_that_look_alike_are_one_class(characters, group):
    drawn = {chr(c.code) for c in characters}
    assert len(drawn & set(group)) <= 1


@pytest.mark.parametrize("group", ["EFKR", "אבג", "ЖЩЯ", "aegqt", "23456789", "ΔΘΞΨ", "ბგდ", "ԲԳԴ"])
def test_letters_that_differ_stay_apart(characters, group):
    assert set(group) <= {chr(c.code) for c in characters}


def test_no_two_classes_look_alike_in_most_faces(characters):
    looks = {(c.code, f): glyphs._look(glyphs._mask(c.code, f)) for c in characters for f in c.faces}
    for i, one in enumerate(characters[::16]):
        for other in characters[16 * i + 1 :]:
            shared = [f for f in one.faces if f in other.faces]
            near = sum(float(looks[one.code, f] @ looks[other.code, f]) > glyphs.ALIKE for f in shared)
            assert not shared or near < glyphs.ALIKE_FACES * len(shared), (chr(one.code), chr(other.code))


def test_no_face_draws_a_replacement_box(characters):
    """What a face draws for a character that it lacks is never among what is drawn."""
    boxes = {f: np.asarray(glyphs._mask(0xE123, f)) for c in characters for f in c.faces}
    for character in characters:
        for face in character.faces:
            assert not np.array_equal(np.asarray(glyphs._mask(character.code, face)), boxes[face])


def test_images_are_ordinary_files_and_the_test_characters_unseen(drawn):
    assert len(drawn) == 2 * drawn.num_classes
    with Image.open(drawn.file(0)) as image:
        assert (image.size, image.mode, image.format) == ((96, 96), "RGB", "JPEG")
    train, test = drawn.part("train"), drawn.part("test")
    assert not set(train.class_names) & set(test.class_names)
    assert test.num_classes == round(0.4 * drawn.num_classes)
    assert set(drawn.coarse[0].class_names) == set(glyphs.SCRIPTS)
    assert drawn.name == "glyphs"


def test_the_same_seed_draws_the_same_pixels(characters):
    for character in (characters[0], characters[100]):
        one, again, other = (
            [np.asarray(image) for image in glyphs.images_of(character, seed, 2)] for seed in (0, 0, 1)
        )
        assert np.array_equal(one, again)
        assert not np.array_equal(one, other)
        assert not np.array_equal(one[0], one[1])


def test_every_image_shows_a_letter(drawn):
    for i in range(0, len(drawn), 7):
        with Image.open(drawn.file(i)) as image:
            gray = np.asarray(image.convert("L"), np.float32)
        assert gray.std() > 12, drawn.paths[i]


def test_drawn_once(tmp_path, monkeypatch, drawn):
    monkeypatch.setattr(glyphs, "cache_folder", lambda: drawn.root.parent.parent)
    monkeypatch.setattr(glyphs, "PER_CLASS", 2)
    monkeypatch.setattr(glyphs, "_draw_all", None)
    assert read("glyphs").digest() == drawn.digest()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "glyphs").mkdir()  # the name is the built-in set's, which a run finds again by it
    assert (read("glyphs").digest(), read("glyphs").source) == (drawn.digest(), "glyphs")
