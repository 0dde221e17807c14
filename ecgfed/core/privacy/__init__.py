"""What one client may do to the others' model, and what its update may tell of it: robust means, noise, epsilon."""
