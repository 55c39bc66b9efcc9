"""Model directory -> what others load: SavedModel, TFLite. Imports `albert_tf`, never `pipelines`."""
