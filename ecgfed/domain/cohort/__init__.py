"""Many patients: clients, splits, sources (numpy; no torch)."""
