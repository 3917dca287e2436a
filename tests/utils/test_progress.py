"""Tests of lookalike.utils.progress."""

import pytest

from lookalike.utils.progress import LineProgress, Progress, WarningsOnly


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (Progress, ""),
        (WarningsOnly, "warning: embeddings have collapsed\n"),
        (LineProgress, "epoch 1\nwarning: embeddings have collapsed\n"),
    ],
)
def test_what_is_shown(kind, shown, capsys):
    progress = kind()
    progress.say("epoch 1")
    progress.warn("embeddings have collapsed")
    assert capsys.readouterr().err == shown
