"""The clock of a run's phases."""

from lookalike.training import context
from lookalike.training.context import PhaseClock


def test_seconds_are_summed_over_the_sessions_of_a_run(monkeypatch):
    now = iter([0.0, 1.0, 4.0, 10.0])
    monkeypatch.setattr(context.time, "monotonic", lambda: next(now))
    clock = PhaseClock()
    clock.continue_from({"start": 2.5, "test": 1.0, "total": 20.0})
    with clock.phase("start"):
        pass
    assert clock.seconds() == {"start": 5.5, "test": 1.0, "total": 30.0}
