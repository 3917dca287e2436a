"""Settings that exclude each other, each with the reason and what to do."""

from lookalike.config.schema import DataSettings, LossSettings, ModelSettings, TrainSettings
from lookalike.errors import ArgumentError


def check_combinations(
    *, data: DataSettings, model: ModelSettings, loss: LossSettings, train: TrainSettings
) -> None:
    """Refuses settings that cannot go together.

    Raises:
        ArgumentError: with the setting that helps.
    """
    if model.views == 2 and not data.flip:
        raise ArgumentError(
            "model.views=2 averages an image with its horizontal flip, and data.flip=false says that these show "
            "different things; leave one of the two out"
        )
    sparse = bool(loss.arguments.get("sparse_gradients"))
    if sparse and train.proxy_optimizer == "same":
        raise ArgumentError(
            f"loss.sparse_gradients: train.optimizer={train.optimizer} takes dense gradients only; "
            "set train.proxy_optimizer=row_sparse_adamw or row_sparse_adamw_small"
        )
    if sparse and train.clip_value is not None:
        raise ArgumentError("train.clip_value cannot clip sparse gradients; leave one of the two out")
    if train.shard_proxies and train.precision == "16-mixed":
        raise ArgumentError(
            "train.precision=16-mixed scales the loss by what overflows in a process, which with sharded proxies "
            "differs between processes; use bf16-mixed or 32-true"
        )
    if train.clip_norm is not None and (train.shard_proxies or train.proxy_optimizer != "same"):
        raise ArgumentError(
            "train.clip_norm needs all gradients in one place, which row-sparse and sharded proxies do not "
            "have; use train.clip_value"
        )
