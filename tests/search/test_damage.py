"""An index with damaged files: a search is right or refused, and the same command again repairs or says what to do."""

import re
import shutil

from lookalike.errors import LookalikeError
from lookalike.search.build import build_index
from lookalike.search.check import check_index
from lookalike.search.image_search import SearchOptions, search_images

from .damage import damaged_copies

REMEDIES = r"remove (the|its) folder and build (it|the index) again|give the command"


def attempt(action, *arguments, **named):
    """What an action returns, or its error in one line."""
    try:
        return action(*arguments, **named)
    except LookalikeError as error:
        return error


def found(index, query):
    (hits,) = search_images(index, [query], SearchOptions(k=9), device="cpu")
    return [hit.path for hit in hits.hits]


def test_a_damaged_index_is_repaired_or_says_what_to_do(model, photos, tmp_path):
    query = photos / "dog" / "0 x.png"
    whole = tmp_path / "whole"
    build_index(model, photos, whole, device="cpu")
    true = found(whole, query)
    repaired = set()
    for file, damage, index in damaged_copies(whole, tmp_path, flips=1):
        case = f"{file}, {damage}"
        before = attempt(found, index, query)
        if file.parts[0] == "model" and isinstance(before, LookalikeError):
            assert "to put the copy of the model back into the index: lookalike index" in str(before), case
        elif file.parts[0] != "vectors":  # a vector with a flipped bit looks like any other
            assert before == true or isinstance(before, LookalikeError), case
        again = attempt(build_index, model, photos, index, device="cpu")
        assert not any(
            len(str(step).splitlines()) > 1 for step in (before, again) if isinstance(step, LookalikeError)
        )
        if isinstance(again, LookalikeError):
            assert re.search(REMEDIES, str(again)), f"{case}: {again}"
            shutil.rmtree(index)
            assert build_index(model, photos, index, device="cpu").added == 6, case
        elif isinstance(before, LookalikeError):
            repaired.add(file.parts[0])
        after = found(index, query)
        assert sorted(after) == sorted(true), case
        assert after == true or file.name == "vectors-0.f32", case
    assert repaired >= {"model", "index.json"}


def test_check_reports_vectors_that_are_not_of_unit_length(model, photos, tmp_path):
    build_index(model, photos, tmp_path / "index", device="cpu")
    file = tmp_path / "index" / "vectors" / "vectors-0.f32"
    content = bytearray(file.read_bytes())
    content[3] ^= 2  # of the first number's exponent
    file.write_bytes(content)
    assert "not of unit length" in str(attempt(check_index, tmp_path / "index"))
