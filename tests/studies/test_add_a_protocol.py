"""A protocol added through the door that docs/how_to/add_a_protocol.md describes."""

import re
from pathlib import Path

from lookalike.config.experiment import Experiment
from lookalike.studies.protocols.task import Task
from lookalike.training.run_dir import RunDir
from toys import TOY_SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "add_a_protocol.md"


def test_the_protocol_of_the_page_trains_on_half_of_the_training_classes(squares, tmp_path, own_cache):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    scope = {}
    exec(compile(code, str(PAGE), "exec"), scope)
    settings = Experiment().override([*TOY_SETTINGS, "train.epochs=1"])
    score = scope["few_classes"](Task(squares, settings, tmp_path, tmp_path))
    assert set(score.metrics) == {"recall_at_1", "map_at_r"}
    assert score.selected_on == "validation classes"
    facts = RunDir(tmp_path / "run").read_json("data.json")
    assert facts["classes"] == {"train": 2, "validation": 2, "test": 8}
