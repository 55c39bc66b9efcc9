"""Text to vocabulary and to pretraining records, on Apache Beam."""
