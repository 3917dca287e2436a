"""The constraints of `make test-oldest` are the lower bounds of pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_oldest_versions_are_the_lower_bounds():
    bounds = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    pinned = re.findall(
        r"^([\w-]+)==([\d.]+)$", (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8"), re.M
    )
    assert [name for name, _ in pinned] == [bound.partition(">=")[0] for bound in bounds]
    for (_, version), bound in zip(pinned, bounds, strict=True):
        least = bound.partition(">=")[2]
        assert re.fullmatch(re.escape(least) + r"(\.\d+)*", version)
