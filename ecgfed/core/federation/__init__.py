"""How rounds run, whatever the method: sampling, client engine, aggregation, checkpoints, history (torch)."""
