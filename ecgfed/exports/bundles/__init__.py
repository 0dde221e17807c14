"""What is shipped: ONNX graphs, their manifest and the proof that they answer as the trained model does."""
