"""A small data set, and what a table of it holds."""

import zipfile


def describe(table):
    return [(p, table.class_names[c]) for p, c in zip(table.paths, table.labels.tolist(), strict=True)]


PHOTOS = [
    ("ant/1.jpg", "ant"),
    ("ant/2.jpg", "ant"),
    ("ant/3.jpg", "ant"),
    ("bee/1.jpg", "bee"),
    ("bee/2.jpg", "bee"),
    ("cat/1.jpg", "cat"),
]


def zipped(folder, archive, prefix=""):
    with zipfile.ZipFile(archive, "w") as bundle:
        for file in sorted(folder.rglob("*")):
            bundle.write(file, prefix + file.relative_to(folder).as_posix())
    return archive
