"""What each command does, without a terminal: one file a verb. ``import ecgfed`` offers them all."""
