"""The run directory: what a training run leaves behind, all of it readable without this package.

RUN/
    model.safetensors, config.json   the network, its preprocessing, class names (models.checkpoint)
    experiment.yaml                  every setting, complete
    environment.json                 versions, device, command
    log.jsonl                        a JSON object an epoch
    training_state/                  select.* and refit.*: proxies, optimizer, history, to resume
    result.json                      start, validation, test; what selected; seconds; counts
    test_queries.json, .npz          the test classes' and queries' own results, for `lookalike compare`
    report.html                      the same for people
    tree.json, tree.html             with a hierarchical loss: which classes were grouped
"""

import json
import shutil
from pathlib import Path
from typing import Any

from lookalike.config.experiment import Experiment, load_experiment
from lookalike.errors import FileError
from lookalike.losses import MetricLoss
from lookalike.losses.sharded import Sharded
from lookalike.training.sharded_state import load_sharded, save_sharded
from lookalike.training.state import TrainingState
from lookalike.training.tensor_tree import load_tree, save_tree
from lookalike.utils.distributed import Processes
from lookalike.utils.io import write_atomically


class RunDir:
    """Names and formats of the files in a run directory."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def create(self, *, overwrite: bool = False) -> None:
        """Makes the folder.

        Raises:
            FileError: it holds a run already (unless `overwrite`), or is something else.
        """
        if self.path.exists() and not self.path.is_dir():
            raise FileError(f"'{self.path}' is a file; name a folder for the run")
        if self.holds_run() and not overwrite:
            raise FileError(
                f"'{self.path}' holds a run already; go on with --resume, replace it with --overwrite, "
                "or name another folder"
            )
        if self.path.is_dir() and not self.holds_run() and any(self.path.iterdir()):
            raise FileError(
                f"'{self.path}' is a folder with other files in it; name a new folder for the run"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        for name in (
            "log.jsonl",
            "result.json",
            "report.html",
            "tree.json",
            "tree.html",
            "test_queries.json",
            "test_queries.npz",
        ):
            (self.path / name).unlink(missing_ok=True)
        shutil.rmtree(self.path / "training_state", ignore_errors=True)

    def holds_run(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / "experiment.yaml").is_file()

    def experiment(self) -> Experiment:
        """The run's settings.

        Raises:
            FileError: no run here.
        """
        if not self.holds_run():
            raise FileError(
                f"'{self.path}' is no run directory (no experiment.yaml); train one with: lookalike train DATA"
            )
        return load_experiment(self.path / "experiment.yaml")

    def write_json(self, name: str, value: Any) -> None:
        """Writes a JSON file, whole or not at all."""
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        write_atomically(self.path / name, lambda file: file.write_text(text))

    def read_json(self, name: str) -> Any:
        """Reads a JSON file.

        Raises:
            FileError: it is missing or damaged.
        """
        try:
            return json.loads((self.path / name).read_text())
        except (OSError, ValueError) as error:
            raise FileError(
                f"the run '{self.path}' has no readable {name} (was it interrupted?): {error}"
            ) from error

    def log(self, record: dict[str, Any]) -> None:
        """Adds a line to log.jsonl."""
        with (self.path / "log.jsonl").open("a") as stream:
            stream.write(json.dumps(record) + "\n")

    def save_state(self, stage: str, state: TrainingState, loss: MetricLoss) -> None:
        """Saves the training state of 'select' or 'refit'; every process calls it, and the leading one writes.

        With sharded proxies each process writes its own; see `lookalike.training.sharded_state`.
        """
        file = self.path / "training_state" / stage
        if isinstance(loss, Sharded):
            save_sharded(file, state.to_tree(), loss, name=f"epoch-{state.epoch}")
        elif Processes.all().rank == 0:
            save_tree(file, state.to_tree())

    def load_state(self, stage: str, loss: MetricLoss) -> TrainingState | None:
        """The saved training state, or None if that stage has not been reached."""
        file = self.path / "training_state" / stage
        if not file.with_suffix(".json").exists():
            return None
        tree = load_sharded(file, loss) if isinstance(loss, Sharded) else load_tree(file)
        return TrainingState.from_tree(tree)
