"""What is shipped: ONNX graphs, manifest, parity check (torch, onnx)."""
