"""Downloads of published archives, each checked against its published hash; a local file never needs a download.

Links die, and what comes may have changed, so hashes are held to those that many public repositories check
(Omniglot's: torchvision). A file appears under its name only when complete and checked.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from lookalike.errors import FileError
from lookalike.utils.progress import Phase, Progress

SCHEMES = ("http", "https")


@dataclass(frozen=True)
class Remote:
    """A file elsewhere; `checksum` is `md5:...` or `sha256:...`, None when nobody published one."""

    url: str
    checksum: str | None = None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return PurePosixPath(urlsplit(self.url).path).name


REMOTES: Mapping[str, tuple[Remote, ...]] = {
    "cub200": (
        Remote(
            "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            "md5:97eceeb196236b17998738112f37df78",
        ),
    ),
    "sop": (
        Remote(
            "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
            "md5:7f73d41a2f44250d4779881525aea32e",
        ),
    ),
    "omniglot": (
        Remote(
            "https://github.com/brendenlake/omniglot/raw/master/python/images_background.zip",
            "md5:68d2efa1b9178cc56df9314c21c6e718",
        ),
        Remote(
            "https://github.com/brendenlake/omniglot/raw/master/python/images_evaluation.zip",
            "md5:6b91aef0f799c5bb55b94e3f2daec811",
        ),
    ),
}
"""Published data sets that anyone may fetch; the others have to be asked for, or their links are dead."""


def is_address(source: str) -> bool:
    """Whether this is the address of a file elsewhere."""
    return urlsplit(source).scheme in SCHEMES


def fetch(remote: Remote, folder: Path, progress: Progress | None = None) -> Path:
    """The file in `folder`, fetched unless it is there already with the right hash.

    Raises:
        FileError: no file name, no answer, an answer that is an error, or another hash; nothing is left under the name.
    """
    import pooch  # only here: with requests it takes a while to import

    if not remote.name:
        raise FileError(f"{remote.url}: the address does not end with the name of a file")
    folder.mkdir(parents=True, exist_ok=True)
    if remote.checksum is None:
        (folder / remote.name).unlink(missing_ok=True)  # nothing says that it would be the same
    pooch.get_logger().setLevel("WARNING")
    with ExitStack() as stack:
        bar = _Megabytes(stack, progress or Progress(), f"downloading {remote.name} (MB)")
        try:
            done = pooch.retrieve(
                remote.url,
                known_hash=remote.checksum,
                fname=remote.name,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar),
            )
        except (OSError, ValueError) as error:
            raise FileError(
                f"{remote.url}: {_reason(error)}; download it in another way and add the file: "
                f"lookalike data add NAME {remote.name}"
            ) from error
    return Path(done)


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, ValueError) and "known hash" in str(error):  # pooch's own words
        return "what came is not what was published: its hash differs"
    if isinstance(error, requests.Timeout):
        return "the host does not answer"
    if isinstance(error, requests.ConnectionError):
        return "the host cannot be reached"
    first, *_ = str(error).splitlines() or [type(error).__name__]
    return f"cannot be downloaded ({first})"


class _Megabytes:
    """What pooch takes for a progress bar: `total` in bytes is set first, then `update` is called."""

    def __init__(self, stack: ExitStack, progress: Progress, name: str) -> None:
        self._stack, self._progress, self._name = stack, progress, name
        self._phase: Phase | None = None
        self._bytes = self._told = 0

    @property
    def total(self) -> int:
        """Bytes that will come; 0 when the server does not say."""
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._total = size
        if size > 0:
            self._phase = self._stack.enter_context(self._progress.phase(self._name, -(-size // 2**20)))

    def update(self, size: int) -> None:
        """`size` more bytes have come."""
        self._bytes = min(self._bytes + size, self._total)
        whole = -(-self._bytes // 2**20)
        if self._phase is not None and whole > self._told:
            self._phase.advance(whole - self._told)
            self._told = whole

    def reset(self) -> None:
        """Called at the end, before an `update` with the whole size."""
        self._bytes = 0

    def close(self) -> None:
        """Nothing: the phase ends with its stack."""
