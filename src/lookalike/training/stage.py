"""One training stage of a run, 'select' or 'refit': trains, and saves state, log and model after each epoch."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lookalike.config.schema import TrainSettings
from lookalike.errors import TrainingError
from lookalike.evaluation import RetrievalResult, embedding_health
from lookalike.losses import BatchPlanner, MetricLoss
from lookalike.training.context import RunContext
from lookalike.training.embed_inputs import embed_all
from lookalike.training.evaluate_run import score_in_run
from lookalike.training.inputs import Batches, Inputs
from lookalike.training.loggers import LogTarget
from lookalike.training.loop import train
from lookalike.training.planned_batches import PlannedBatches
from lookalike.training.run_dir import LOGS
from lookalike.training.setup import build_batch_sampler, save_best_model
from lookalike.training.start_from import save_loss_proxies
from lookalike.training.state import TrainingState, load_state, save_state
from lookalike.training.step_log import StepLog, open_step_log
from lookalike.training.summary import epoch_line
from lookalike.training.trainable import TrainablePart


@dataclass(frozen=True)
class Validation:
    """Measures the validation classes with the present weights.

    Attributes:
        collapsed: whether the embeddings had collapsed, per measurement; said when it begins, not every epoch.
    """

    context: RunContext
    trainable: TrainablePart
    inputs: Inputs
    collapsed: list[bool] = field(default_factory=list)

    def metrics(self) -> dict[str, float]:
        """What is logged per epoch."""
        return self.measure()[1]

    def measure(self) -> tuple[RetrievalResult, dict[str, float]]:
        """The result per query, and what is logged: retrieval metrics and the health of the embeddings.

        Raises:
            TrainingError: embeddings are not finite.
        """
        with self.context.clock.phase("validation"):
            table, embeddings = self.inputs.table, self._embed()
            result = score_in_run(self.context, table, embeddings)
            health = embedding_health(embeddings, table.labels)
        if health.collapsed and not any(self.collapsed[-1:]):
            self.context.progress.warn(health.warning)
        self.collapsed.append(health.collapsed)
        values = {key: value for key, value in result.to_dict().items() if isinstance(value, float)}
        values["effective_rank"] = health.effective_rank
        values["similarity_between_classes"] = health.between
        return result, values

    def _embed(self) -> NDArray[np.float32]:
        embeddings = embed_all(self.context, self.trainable, self.inputs, project=True).numpy()
        broken = ~np.isfinite(embeddings).all(axis=1)
        if broken.any():
            name = self.inputs.table.paths[int(broken.argmax())]
            raise TrainingError(
                f"embeddings of {int(broken.sum())} of {len(broken)} validation images are not finite ({name}); "
                "lower the learning rates or set train.clip_norm=1; the best epoch so far is saved"
            )
        return embeddings


@dataclass(frozen=True)
class Stage:
    """What one stage trains, on what, and for how long.

    Attributes:
        name: 'select' or 'refit'.
        settings: of the loop, with the stage's own epochs and schedule.
        validation: chooses the epoch; None keeps the last one.
    """

    name: str
    context: RunContext
    trainable: TrainablePart
    loss: MetricLoss
    inputs: Inputs
    settings: TrainSettings
    validation: Validation | None

    def train(self) -> TrainingState:
        """Trains, from the saved state if there is one; the network ends with the weights of the best epoch."""
        context, state = self.context, self._saved_state()
        with context.clock.phase(f"training ({self.name})"), self._log(state) as log:
            state = train(
                self.trainable,
                self.loss,
                self.inputs,
                self._batches(),
                self.settings,
                fabric=context.fabric,
                seed=context.experiment.seed,
                evaluate=None if self.validation is None else self.validation.metrics,
                state=state,
                on_epoch=self._save,
                progress=context.progress,
                log=log,
            )
        if self.validation is None:
            self._save_proxies()
        return state

    def _log(self, state: TrainingState | None) -> AbstractContextManager[StepLog]:
        """The log of the steps, which the main process writes."""
        context, name = self.context, f"{self.context.run_dir.path.name}-{self.name}"
        every = self.settings.accumulate
        done = 0 if state is None else sum(-(-record.get("steps", 0) // every) for record in state.history)
        target = LogTarget(
            context.run_dir.path / LOGS / self.name, name, context.experiment.model_dump(mode="json"), done
        )
        return open_step_log(context.log_to if context.is_main_process else (), target)

    def _batches(self) -> Batches:
        """The sampler that the experiment names, or what the loss plans."""
        context, loss = self.context, self.loss
        if not isinstance(loss, BatchPlanner):
            return build_batch_sampler(context, self.inputs.labels)
        return PlannedBatches(
            loss,
            self.inputs.labels,
            context.experiment.batch,
            vectors=lambda pooled: embed_all(context, self.trainable, self.inputs, project=not pooled),
            epochs=self.settings.epochs or 0,
            seed=context.experiment.seed,
        )

    def _save(self, state: TrainingState) -> None:
        """Writes what a resumed run needs, the log, and the model where this epoch is the best."""
        context, run_dir = self.context, self.context.run_dir
        save_state(run_dir.state_path(self.name), state, self.loss)
        if context.is_main_process:
            run_dir.write_json("training_state/seconds.json", context.clock.seconds())
            run_dir.write_log(self.name, state.history)
            if self.validation is not None and state.best_epoch == state.epoch:
                save_best_model(context, self.trainable.embedder)
                self._save_proxies()
        context.processes.barrier(patient=True)  # the main process may have written for a while
        if self.validation is not None:
            context.progress.say(epoch_line(state, self.settings.metric))

    def _save_proxies(self) -> None:
        save_loss_proxies(self.context, self.inputs.table.class_names, self.loss)

    def _saved_state(self) -> TrainingState | None:
        """The state of an interrupted run; its log is written again, in case the run was killed before that."""
        run_dir = self.context.run_dir
        state = load_state(run_dir.state_path(self.name), self.loss)
        if state is not None and self.context.is_main_process:
            run_dir.write_log(self.name, state.history)
        return state
