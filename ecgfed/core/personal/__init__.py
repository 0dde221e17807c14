"""Personal models fitted after training, from any global model and one patient's labelled beats."""
