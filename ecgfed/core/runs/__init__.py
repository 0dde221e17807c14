"""A run on disk: what was asked for, its checkpoints and history, what its clients keep."""
