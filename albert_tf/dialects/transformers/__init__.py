"""Dialect of the transformers library: directories that `save_pretrained` writes and `from_pretrained` reads.

Facts are from the library's public source, release 5.24 and for older files 2.2 to 4.57
(huggingface/transformers, src/transformers/models/albert): names.py has the weights, configuration.py `config.json`,
tokenizers.py the vocabularies.
"""

from albert_tf.dialects.transformers.names import table
from albert_tf.dialects.transformers.reading import open_model, recognises
from albert_tf.dialects.transformers.writing import save_model

NAME = "transformers"
TITLE = "transformers directories (config.json with model.safetensors, pytorch_model.bin or tf_model.h5)"

__all__ = ["NAME", "TITLE", "open_model", "recognises", "save_model", "table"]
