"""A tour in Python: read images, train on some classes, measure on others, build an index, search it.

    python examples/tour.py [DATA] [OUT]

DATA is anything that `lookalike.read` takes: a folder with one folder of images per class, a table, an archive,
or the built-in drawn characters `glyphs`, which take about a minute. Leave out the settings below for real
training.
"""

import sys
from pathlib import Path

import lookalike
from lookalike.search.build import build_index
from lookalike.search.image_search import SearchOptions, search_images

TOY = [
    "train.mode=frozen",  # trains the projection on cached features of the backbone
    "train.epochs=2",
    "data.image_size=64",
    "data.flip=false",  # a mirrored b is a d
    "data.workers=0",
]


def main(data: str, out: Path) -> None:
    # 1. A table of paths, labels and class names; no pixels are read yet.
    table = lookalike.read(data)
    print(table)

    # 2. Train, measure on classes that were never seen in training, and leave a run directory.
    experiment = lookalike.Experiment().override([*TOY, "loss.name=proxy_anchor"])
    lookalike.fit(table, out / "run", experiment, overwrite=True)

    # 3. Embeddings of any images, and every retrieval metric of them.
    model, _ = lookalike.load_model(out / "run")
    test = experiment.split(table).test
    embeddings = lookalike.embed(model, test)
    result = lookalike.evaluate(embeddings.matrix, embeddings.labels)
    print(
        f"recall@1 {result.recall_at_1:.3f}, MAP@R {result.map_at_r:.3f} on {len(set(test.labels))} new classes"
    )

    # 4. An index of images, and the images most similar to one of them.
    print(build_index(out / "run", data, out / "index"))
    for query in search_images(out / "index", [], SearchOptions(k=3), sample=1):
        print(f"most similar to {query.query}:")
        for hit in query.hits:
            print(f"  {hit.similarity:.3f}  {hit.label}  {hit.path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "glyphs", Path(sys.argv[2] if len(sys.argv) > 2 else "tour"))
