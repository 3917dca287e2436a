"""Projections computed in closed form, for the start of training and for trained features.

Images of one class differ along directions that do not tell classes apart (pose, light, background). Whitening by
the within-class covariance shrinks exactly those; the principal directions of what remains are those along which
classes differ, unseen ones too. Shrinkage keeps directions that the training classes hardly vary along from being
blown up.

Legend: N images, F features, D embedding, C classes. Everything inside is float64 on the CPU; results
are float32. A projection here is `weight @ u + bias`, to be compared by cosine.
"""

import torch
from torch import Tensor

from lookalike.errors import ArgumentError
from lookalike.models.projections import Linear
from lookalike.utils.validation import check_at_least


def whitened(
    features_NF: Tensor,
    labels_N: Tensor,
    dim: int,
    *,
    parts: int = 1,
    shrinkage: float = 1.0,
    block_size: int = 4096,
) -> Linear:
    """The `dim` principal directions of the features after whitening within classes.

    With the mean g and the pooled within-class covariance W = 1/N sum (u - m_y)(u - m_y)^T, whiten by
    S = W + shrinkage (tr W / F) I:  z = S^(-1/2) (u - g); then project z on the leading eigenvectors of its
    covariance. Computed as the generalized eigenproblem T v = lambda S v of the total covariance T, which is
    the same up to signs (here: the largest coefficient of each direction is positive).

    Of features in several parts, such as average and maximum one after the other, each part is first scaled to the
    same variance: otherwise the ridge would hide the smaller one. The scale is folded into the weight.

    Args:
        features_NF: pooled vectors of the training images, (N, F).
        labels_N: their classes, (N,) integers.
        dim: width D of the embedding.
        parts: how many parts of equal width the features have.
        shrinkage: strength of the ridge, in units of the mean within-class variance; above 0.
        block_size: rows per block.

    Raises:
        ArgumentError: invalid shapes or values, no class with two different images, or more
            directions than the features span.
    """
    _check(features_NF, dim, block_size)
    check_at_least("shrinkage", shrinkage, 1e-12)
    if labels_N.shape != features_NF.shape[:1]:
        raise ArgumentError(
            f"labels have shape {tuple(labels_N.shape)}; expected ({len(features_NF)},), one per image"
        )
    if parts > 1:
        scale_F = _equal_variance(features_NF, parts)
        weight, bias = whitened(
            features_NF * scale_F, labels_N, dim, shrinkage=shrinkage, block_size=block_size
        )
        return _signed(Linear(weight * scale_F, bias))
    width = features_NF.shape[1]
    if len(features_NF) < width:  # the same in fewer dimensions: nothing varies outside the span of the rows
        coordinates_NR, basis_RF = _span(features_NF)
        inner = _whitened(coordinates_NR, labels_N, dim, shrinkage, block_size, width)
        return _signed(Linear((inner.weight.double() @ basis_RF).float(), inner.bias))
    return _whitened(features_NF, labels_N, dim, shrinkage, block_size, width)


def _whitened(
    features_NF: Tensor, labels_N: Tensor, dim: int, shrinkage: float, block_size: int, width: int
) -> Linear:
    """`whitened`, of features that may be coordinates within a space of `width` dimensions."""
    _, classes_N = torch.unique(labels_N.cpu(), return_inverse=True)
    means_CF, counts_C = _class_means(features_NF, classes_N, block_size)
    mean_F = (counts_C @ means_CF) / len(features_NF)
    within_FF = _covariance(features_NF, means_CF, classes_N, block_size)
    trace = float(within_FF.trace())
    if trace <= 1e-14 * float(means_CF.square().sum() + 1e-300):
        raise ArgumentError(
            f"no class among {len(counts_C)} has two different images, so there is nothing to whiten "
            "within classes; use 'pca' instead"
        )
    between_CF = (means_CF - mean_F) * (counts_C / len(features_NF)).sqrt()[:, None]
    total_FF = within_FF + between_CF.T @ between_CF
    shrunk_FF = within_FF + shrinkage * trace / width * torch.eye(len(within_FF), dtype=torch.float64)
    lower_FF = torch.linalg.cholesky(shrunk_FF)
    half_FF = torch.linalg.solve_triangular(lower_FF, total_FF, upper=False)
    whitened_FF = torch.linalg.solve_triangular(lower_FF, half_FF.T, upper=False)
    directions_FD = _principal(whitened_FF, dim, len(features_NF))
    weight_DF = torch.linalg.solve_triangular(lower_FF.T, directions_FD, upper=True).T
    return _signed(_about(mean_F, weight_DF))


def pca(features_NF: Tensor, dim: int, *, block_size: int = 4096) -> Linear:
    """Projection on the `dim` principal directions, about the mean."""
    _check(features_NF, dim, block_size)
    one_class = torch.zeros(len(features_NF), dtype=torch.long)
    mean_1F, _ = _class_means(features_NF, one_class, block_size)
    covariance_FF = _covariance(features_NF, mean_1F, one_class, block_size)
    return _signed(_about(mean_1F[0], _principal(covariance_FF, dim, len(features_NF)).T))


def _equal_variance(features_NF: Tensor, parts: int) -> Tensor:
    """Factors, (F,), after which the mean variance of every part is 1; a part without variance stays as it is."""
    deviation_P = features_NF.float().var(dim=0, correction=0).view(parts, -1).mean(dim=1).sqrt()
    factor_P = torch.where(deviation_P > 0, 1 / deviation_P, 1.0)
    return factor_P.repeat_interleave(features_NF.shape[1] // parts)


def _span(features_NF: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates (N, R) of the rows in an orthonormal basis (R, F) of their span, R at most N."""
    rows_NF = _rows(features_NF, 0, len(features_NF))
    values_N, vectors_NN = torch.linalg.eigh(rows_NF @ rows_NF.T)
    kept = values_N > values_N[-1].clamp_min(0) * 1e-12
    lengths_R = values_N[kept].sqrt()
    return vectors_NN[:, kept] * lengths_R, (vectors_NN[:, kept] / lengths_R).T @ rows_NF


def _check(features_NF: Tensor, dim: int, block_size: int) -> None:
    if features_NF.ndim != 2 or len(features_NF) == 0:
        raise ArgumentError(
            f"features have shape {tuple(features_NF.shape)}; expected (N, F) with N at least 1"
        )
    check_at_least("dim", dim, 1)
    check_at_least("block_size", block_size, 1)


def _rows(features_NF: Tensor, start: int, block_size: int) -> Tensor:
    rows = features_NF[start : start + block_size].detach().cpu().double()
    if not bool(torch.isfinite(rows).all()):
        raise ArgumentError(f"features are not finite in rows {start}..{start + len(rows) - 1}")
    return rows


def _class_means(features_NF: Tensor, classes_N: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
    counts_C = torch.bincount(classes_N).double()
    sums_CF = torch.zeros(len(counts_C), features_NF.shape[1], dtype=torch.float64)
    for start in range(0, len(features_NF), block_size):
        sums_CF.index_add_(0, classes_N[start : start + block_size], _rows(features_NF, start, block_size))
    return sums_CF / counts_C[:, None], counts_C


def _covariance(features_NF: Tensor, means_CF: Tensor, classes_N: Tensor, block_size: int) -> Tensor:
    """1/N sum of outer products of rows less the mean of their class, (F, F)."""
    width = features_NF.shape[1]
    sum_FF = torch.zeros(width, width, dtype=torch.float64)
    for start in range(0, len(features_NF), block_size):
        residual = _rows(features_NF, start, block_size) - means_CF[classes_N[start : start + block_size]]
        sum_FF.addmm_(residual.T, residual)
    return sum_FF / len(features_NF)


def _principal(covariance_FF: Tensor, dim: int, images: int) -> Tensor:
    """Leading eigenvectors as columns, (F, dim)."""
    values_F, vectors_FF = torch.linalg.eigh((covariance_FF + covariance_FF.T) / 2)
    rank = int((values_F > values_F[-1].clamp_min(0) * 1e-12).sum())
    if dim > rank:
        raise ArgumentError(
            f"dim {dim} is more than the {rank} directions that {images} images of {len(covariance_FF)} "
            f"features span; lower embedding_dim to {rank} or give more images"
        )
    leading_FD = vectors_FF[:, -dim:].flip(1)
    largest = leading_FD.abs().argmax(dim=0)
    signed_FD: Tensor = leading_FD * leading_FD.gather(0, largest[None]).sign()
    return signed_FD


def _about(mean_F: Tensor, weight_DF: Tensor) -> Linear:
    return Linear(weight_DF.float(), -(weight_DF @ mean_F).float())


def _signed(projection: Linear) -> Linear:
    """The same directions, each with its largest coefficient positive, so that the result is unique."""
    weight_DF, bias_D = projection
    largest_D1 = weight_DF.gather(1, weight_DF.abs().argmax(dim=1, keepdim=True))
    return Linear(weight_DF * largest_D1.sign(), bias_D * largest_D1[:, 0].sign())
