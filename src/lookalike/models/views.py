"""The views of an image that one embedding is made of: the image alone, or the image and its mirror image.

With two views the embedding is the projection of the mean of their pooled vectors. Averaging unit embeddings
instead gives the same retrieval within 0.02 percent, but only the mean before the projection lets the class
means and the closed-form projections be computed on exactly what is compared later.
"""

from collections.abc import Sequence

from torch import Tensor

VIEWS = (1, 2)


def image_views(images_BCHW: Tensor, views: int) -> tuple[Tensor, ...]:
    """The images, and with two views their mirror images too."""
    return (images_BCHW,) if views == 1 else (images_BCHW, images_BCHW.flip(-1))


def mean_of_views(pooled: Sequence[Tensor]) -> Tensor:
    """The mean of the pooled vectors of each view; those of one view stay as they are, bit for bit."""
    return pooled[0] if len(pooled) == 1 else sum(pooled[1:], pooled[0]) / len(pooled)
