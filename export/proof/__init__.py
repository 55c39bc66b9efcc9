"""The proof that an exported artefact equals the model it was made from, and the report and model card of it."""
