"""Every engine behind a whole index: build, update, filter, check."""

import pytest

from lookalike.search import ENGINES, ImageIndex
from lookalike.search.build import build_index
from lookalike.search.check import check_index
from lookalike.search.image_search import SearchOptions, search_images

from .conftest import paint


@pytest.mark.parametrize("engine", ENGINES)
def test_an_index_grows_and_is_checked(engine, model, photos, tmp_path, request):
    entry = ENGINES[engine]
    if entry.package:
        pytest.importorskip(entry.package, reason=f"pip install 'lookalike[{entry.extra}]' is absent")
    uri = request.getfixturevalue(f"{engine}_uri") if entry.uri else None
    out = tmp_path / "index"
    assert build_index(model, photos, out, engine=engine, uri=uri, device="cpu").added == 6
    paint(photos / "dog" / "0 x.png", seed=40)
    report = build_index(model, photos, out, prune=True, device="cpu")
    assert (report.added, report.images) == (1, 6)
    query = photos / "dog" / "0 x.png"
    (hits,) = search_images(out, [query], SearchOptions(k=9, where="label = dog"), device="cpu")
    assert hits.hits[0].path == "dog/0 x.png"
    assert len(hits.hits) == 3
    done = check_index(out)
    assert done.recall == 1
    with ImageIndex.open(out) as index:
        assert index.engine.count() == 6
        assert index.facts.check == done.to_dict()
