"""Learner: the part of a network, the loss and the optimizers that train together, and one training step of them."""

from dataclasses import dataclass

from lightning_fabric import Fabric
from torch import Tensor

from lookalike.config.schema import TrainSettings
from lookalike.losses import MetricLoss
from lookalike.losses.sharded import Sharded
from lookalike.models.batch_norm import freeze_batch_norm, set_batch_norm_momentum
from lookalike.optim.optimizers import Optimizers
from lookalike.training.state import TrainingState, clone_state
from lookalike.training.step_log import StepLog
from lookalike.training.trainable import TrainablePart
from lookalike.utils.distributed import Processes, average_buffers, broadcast, global_batch


@dataclass(frozen=True)
class Learner:
    """What trains together: part of a network, a loss and the optimizers of both."""

    trainable: TrainablePart
    loss: MetricLoss
    optimizers: Optimizers
    settings: TrainSettings
    fabric: Fabric
    log: StepLog

    def begin_epoch(self, epoch: int) -> None:
        """Sets train mode; batch norm as set, and the backbone frozen during warm-up."""
        settings, embedder = self.settings, self.trainable.embedder
        warming = _warms_up(settings, epoch)
        if settings.compat.warmup_resets_optimizer and _warms_up(settings, epoch - 1) and not warming:
            self.optimizers.reset_state([*embedder.parameters(), *self.loss.parameters()])
        embedder.train()
        self.loss.train()
        for parameter in self.trainable.backbone_parameters():
            parameter.requires_grad_(not warming)
        if settings.compat.batch_norm_momentum is not None:
            set_batch_norm_momentum(embedder, settings.compat.batch_norm_momentum)
        if settings.batch_norm != "train":
            freeze_batch_norm(embedder, affine_trained=settings.batch_norm == "frozen" and not warming)

    def backward(self, batch: Tensor, labels: Tensor, *, accumulated: int) -> float:
        """Adds the gradients of a batch, one of `accumulated` that are averaged; returns its loss.

        The loss is that of the global batch, the same in every process, computed in at least float32.
        """
        batch, labels = (x.to(self.fabric.device, non_blocking=True) for x in (batch, labels))
        value: Tensor
        if self.loss.needs_feature_maps:
            with self.fabric.autocast():
                maps = self.trainable.feature_maps(batch)
                embeddings = self.trainable.embedder.project(self.trainable.embedder.pool(maps))
            value = self.loss(embeddings, labels, maps)
        else:
            with self.fabric.autocast():
                embeddings = self.trainable.embed(batch)
            embeddings, labels = global_batch(embeddings, labels, averaged=False)
            value = self.loss(embeddings, labels)
        self.fabric.backward(value / accumulated if accumulated > 1 else value)
        return float(value.detach())

    def step(self) -> None:
        """One optimizer step with the gradients of all processes."""
        processes = Processes.all()
        if processes.size > 1:
            for parameter in self.trainable.embedder.parameters():  # the loss's are complete in every process
                if parameter.grad is not None:
                    processes.sum_(parameter.grad)
        self.optimizers.reset_state(self.loss.pop_reset_parameters())
        self.log.measure_gradients(self.optimizers)
        self.optimizers.step(self.settings)

    def end_epoch(self) -> None:
        """Applies deferred updates of row-sparse proxies, and averages batch norm's statistics over processes."""
        self.optimizers.catch_up()
        average_buffers(self.trainable.embedder)
        self.share_proxies()

    def share_proxies(self) -> None:
        """Makes the loss of every process that of the main one.

        Each computes all gradients of the proxies itself, and sums on a GPU are rounded in no fixed order, so copies
        would drift apart. Sharded proxies have no copies.
        """
        if not isinstance(self.loss, Sharded):
            broadcast(self.loss)

    def save(self, state: TrainingState) -> None:
        """Copies weights and optimizers into `state`."""
        state.model = clone_state(self.trainable.embedder.state_dict())
        state.loss = clone_state(self.loss.state_dict())
        state.optimizers = self.optimizers.state_dict()
        state.scaler = self.optimizers.scaler_state()

    def load(self, state: TrainingState) -> None:
        """Takes weights and optimizers from `state`."""
        self.trainable.embedder.load_state_dict(state.model)
        self.loss.load_state_dict(state.loss)
        self.optimizers.load_state_dict(state.optimizers)
        self.optimizers.load_scaler_state(state.scaler)


def _warms_up(settings: TrainSettings, epoch: int) -> bool:
    first = settings.compat.warmup_first
    return first <= epoch < first + (settings.warmup_epochs or 0)
