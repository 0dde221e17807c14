"""What is shipped and runs on a device: bundles, the device runtime, C and JavaScript, the packaged model."""
