"""Freezing BatchNorm, which decides results when a large network is fine-tuned on a small data set.

`module.train()` re-enables BatchNorm updates, so freezing has to be repeated after each such call.
"""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def batch_norms(module: nn.Module) -> list[_BatchNorm]:
    """Every batch norm inside `module`, in order."""
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]


def freeze_batch_norm(module: nn.Module, *, affine_trained: bool) -> None:
    """Puts every batch norm in evaluation mode: running statistics are used and no longer updated.

    Args:
        module: an embedder, backbone or stage; call again after every `module.train()`.
        affine_trained: whether scale and shift are left as they are (True) or stop training (False). The
            released ProxyGML code leaves them training; the released Proxy-Anchor code stops them, but its
            warm-up switch starts them again, so they train there too whenever there is a warm-up.
    """
    for norm in batch_norms(module):
        norm.eval()
        for parameter in norm.parameters(recurse=False):
            if not affine_trained:
                parameter.requires_grad_(False)


def set_batch_norm_momentum(module: nn.Module, momentum: float) -> None:
    """Sets the weight of each new batch in the running statistics (PyTorch's meaning of momentum).

    The BN-Inception of the Proxy-Anchor release uses 0.9, which keeps little beyond the last batch.
    """
    for norm in batch_norms(module):
        norm.momentum = momentum
