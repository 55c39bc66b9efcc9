"""Files of named tensors in the forms that other programs write, read one tensor at a time.

Nothing here knows ALBERT: a file is a mapping of names to arrays. What a name means stands in `albert_tf.dialects`.
"""
