"""What a model is made of and what its layers do: the paper's own analyses, of its models and of yours."""
