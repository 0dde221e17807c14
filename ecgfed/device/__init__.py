"""Inference from a bundle: numpy and onnxruntime (scipy where it filters); never torch, never wfdb."""

from ecgfed.device.bundle import Bundle, Classifier, Predictions, open_bundle

__all__ = ["Bundle", "Classifier", "Predictions", "open_bundle"]
