"""The settings of an embedder: everything but its weights, enough to build the same network again."""

from dataclasses import asdict, dataclass
from typing import Any

from lookalike.errors import FileError
from lookalike.models.networks import Architecture
from lookalike.models.views import VIEWS
from lookalike.preprocessing import Preprocessing

PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class EmbedderConfig:
    """Settings of an `Embedder`.

    Attributes:
        backbone: the name that the user gave.
        architecture: the network of that backbone, buildable offline.
        channels: channels of its feature maps.
        pooling, k, norm: how feature maps become one vector (see `pooling`).
        embedding_dim: width of the projection; None: no projection, the pooled vector is the embedding.
        bias: whether the projection has a bias.
        preprocessing: what the backbone expects of an image.
        weights_origin, weights_license: where the pretrained weights came from, in words.
        views: 1 for the image alone, 2 for the mean of the image and its mirror image (see `views`).
        precision: number type in which the backbone embeds, on devices that compute in it (see `fuse`).
    """

    backbone: str
    architecture: Architecture
    channels: int
    pooling: str
    k: int
    norm: str
    embedding_dim: int | None
    bias: bool
    preprocessing: Preprocessing
    weights_origin: str
    weights_license: str
    views: int = 1
    precision: str = "float32"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "EmbedderConfig":
        """The inverse of `to_dict`.

        Raises:
            FileError: a field is missing, unknown or of the wrong kind.
        """
        try:
            architecture = Architecture(**values["architecture"])
            preprocessing = Preprocessing.from_dict(values["preprocessing"])
            config = cls(**{**values, "architecture": architecture, "preprocessing": preprocessing})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileError(f"the model's settings are not those of an embedder: {error}") from error
        for name in ("backbone", "pooling", "norm"):
            if not isinstance(getattr(config, name), str):
                raise FileError(f"the model's setting '{name}' is not a text")
        for name in ("channels", "k", "embedding_dim"):
            value = getattr(config, name)
            if not (isinstance(value, int) and value > 0) and not (name == "embedding_dim" and value is None):
                raise FileError(f"the model's setting '{name}' is {value!r}, not a whole number above 0")
        if config.views not in VIEWS:
            raise FileError(f"the model's setting 'views' is {config.views!r}; it is 1 or 2")
        if config.precision not in PRECISIONS:
            raise FileError(
                f"the model's setting 'precision' is {config.precision!r}; it is one of {', '.join(PRECISIONS)}"
            )
        return config
