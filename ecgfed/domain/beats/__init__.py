"""From a recording to labelled windows (numpy; no torch)."""
