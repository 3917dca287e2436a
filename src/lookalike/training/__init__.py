"""Everything about a training run; the way in is `training.fit.fit`."""
