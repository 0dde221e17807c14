"""ecgfed: federated, personalised arrhythmia classifiers, from recordings to ONNX models for a device.

The pipeline reads in the folder names: ``record -> beats -> cohort``, ``nets -> methods -> federation ->
evaluation -> bundle``, and ``device`` for inference without torch. Research software, not a medical device.
"""

__version__ = "0.1.0"
