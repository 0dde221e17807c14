"""What one federated algorithm decides: one file each (torch)."""
