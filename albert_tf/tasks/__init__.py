"""Tasks: files to labelled examples, examples to features, predictions to metrics and reports. No TensorFlow."""
