"""Personal answers made after training: from any global model and one patient's own labelled beats."""
