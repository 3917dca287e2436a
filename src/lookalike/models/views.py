"""The views of an image that one embedding is made of: the image alone, or the image and its mirror image.

With two views the embedding is the projection of the mean of their pooled vectors. Averaging unit embeddings
instead gives the same retrieval within 0.02 percent, but only the mean before the projection lets the class
means and the closed-form projections be computed on exactly what is compared later.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

VIEWS = (1, 2)


def image_views(images_BCHW: Tensor, views: int) -> tuple[Tensor, ...]:
    """The images, and with two views their mirror images too."""
    return (images_BCHW,) if views == 1 else (images_BCHW, images_BCHW.flip(-1))


def mean_over_views(function: Callable[[Tensor], Tensor], views: Sequence[Tensor]) -> Tensor:
    """The mean of `function` of each view; of one view it is the function itself, bit for bit."""
    total = function(views[0])
    for view in views[1:]:
        total = total + function(view)
    return total if len(views) == 1 else total / len(views)
