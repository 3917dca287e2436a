"""What disks, copies and people do to files: every test of damage tries these on every file."""

import random
import shutil


def damages(content, flips=2):
    """Name and what is left of a file's content; None where the file is gone."""
    draws = random.Random(len(content))
    yield "emptied", b""
    yield "half of it", content[: len(content) // 2]
    yield "without its end", content[:-1]
    yield "gone", None
    yield "noise", draws.randbytes(len(content))
    for number in range(flips if content else 0):
        at = draws.randrange(len(content))
        yield (
            f"bit {number}",
            content[:at] + bytes([content[at] ^ 1 << draws.randrange(8)]) + content[at + 1 :],
        )


def damaged_copies(folder, into, flips=2):
    """A copy of `folder` for every damage of every file in it: file, damage, copy."""
    number = 0
    for file in sorted(each.relative_to(folder) for each in folder.rglob("*") if each.is_file()):
        for name, left in damages((folder / file).read_bytes(), flips):
            number += 1
            copy = into / f"copy {number}"
            shutil.copytree(folder, copy)
            if left is None:
                (copy / file).unlink()
            else:
                (copy / file).write_bytes(left)
            yield file, name, copy
            shutil.rmtree(copy)
