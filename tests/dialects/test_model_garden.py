"""Model Garden checkpoints, written here as trees of objects of the shape that its models have.

The trees follow tensorflow/models: official/nlp/modeling/networks/albert_encoder.py, official/nlp/modeling/models/
bert_pretrainer.py, bert_classifier.py, bert_token_classifier.py, bert_span_labeler.py, official/nlp/modeling/layers/
transformer_encoder_block.py, masked_lm.py, cls_head.py; those of versions 2.2 and 2.3 where a name says so. TensorFlow
itself chooses the keys, among the several ways to a shared variable too.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.dialects import model_garden
from albert_tf.dialects.matching import Row, match
from albert_tf.head_config import HeadConfig
from albert_tf.weight_shapes import weight_shapes

V, E, H, N, F, S, SEGMENTS = 23, 5, 12, 3, 17, 19, 2
VALUES: dict[str, Any] = {
    "vocab_size": V,
    "embedding_size": E,
    "hidden_size": H,
    "num_hidden_layers": 4,
    "num_attention_heads": N,
    "intermediate_size": F,
    "max_position_embeddings": S,
    "type_vocab_size": SEGMENTS,
    "hidden_act": "gelu",
}
CONFIG = AlbertConfig(**VALUES)
BLOCK = "encoder/group_0/inner_0"


class Tree:
    """Objects and variables of a model, with what each variable is in our names and shapes."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(13)
        self.expected: dict[str, np.ndarray] = {}

    def variable(self, ours: str, shape: tuple[int, ...], our_shape: tuple[int, ...] | None = None) -> Any:
        import tensorflow as tf

        value = self.random.normal(0.0, 0.3, shape).astype(np.float32)
        if ours:
            self.expected[ours] = value.reshape(our_shape or shape)
        return tf.Variable(value)

    def node(self, **children: Any) -> Any:
        import tensorflow as tf

        found = tf.Module()
        for name, child in children.items():
            setattr(found, name.replace("__", "-"), child)
        return found

    def dense(self, ours: str, inputs: int, outputs: int) -> Any:
        kernel, bias = (f"{ours}/kernel", f"{ours}/bias") if ours else ("", "")
        return self.node(kernel=self.variable(kernel, (inputs, outputs)), bias=self.variable(bias, (outputs,)))

    def norm(self, ours: str, width: int) -> Any:
        return self.node(gamma=self.variable(f"{ours}/gamma", (width,)), beta=self.variable(f"{ours}/beta", (width,)))

    def heads_in(self, name: str) -> Any:
        ours = f"{BLOCK}/attention/{name}"
        kernel = self.variable(f"{ours}/kernel", (H, N, H // N), (H, H))
        return self.node(kernel=kernel, bias=self.variable(f"{ours}/bias", (N, H // N), (H,)))

    def block(self, *, early: bool) -> Any:
        attention = self.node(**{f"_{name}_dense": self.heads_in(name) for name in ("query", "key", "value")})
        ours = f"{BLOCK}/attention/output"
        output = self.node(
            kernel=self.variable(f"{ours}/kernel", (N, H // N, H), (H, H)), bias=self.variable(f"{ours}/bias", (H,))
        )
        found = self.node(
            _attention_layer=attention,
            _attention_layer_norm=self.norm(f"{BLOCK}/attention/layer_norm", H),
            _intermediate_dense=self.dense(f"{BLOCK}/feed_forward/intermediate", H, F),
            _output_dense=self.dense(f"{BLOCK}/feed_forward/output", F, H),
            _output_layer_norm=self.norm(f"{BLOCK}/feed_forward/layer_norm", H),
        )
        if early:
            found._attention_output_dense = output
        else:
            attention._output_dense = output
        return found

    def encoder(self, *, early: bool = False, width: int = E, own_pooler: bool = True) -> Any:
        """AlbertEncoder; `own_pooler` is whether a head reads its pooler."""
        embeddings = "encoder/embeddings"
        layers = [
            self.node(embeddings=self.variable(f"{embeddings}/word_embeddings", (V, width))),
            self.node(embeddings=self.variable(f"{embeddings}/position_embeddings", (S, width))),
            self.node(embeddings=self.variable(f"{embeddings}/token_type_embeddings", (SEGMENTS, width))),
            self.norm(f"{embeddings}/layer_norm", width),
            *([self.dense("encoder/embedding_projection", width, H)] if width != H else []),
            self.block(early=early),
            self.dense("encoder/pooler" if own_pooler else "", H, H),
        ]
        return self.sequence(layers)

    def sequence(self, layers: list[Any]) -> Any:
        """A functional model of Keras', which numbers its layers."""
        return self.node(**{f"layer_with_weights__{number}": layer for number, layer in enumerate(layers)})

    def masked_lm(self, encoder: Any) -> Any:
        found = self.node(
            dense=self.dense("masked_lm/dense", H, E),
            layer_norm=self.norm("masked_lm/layer_norm", E),
            embedding_table=getattr(encoder, "layer_with_weights-0").embeddings,
        )
        setattr(found, "output_bias/bias", self.variable("masked_lm/output_bias", (V,)))
        return found

    def early_masked_lm(self) -> Any:
        bias = self.node(bias=self.variable("masked_lm/output_bias", (V,)))
        return self.sequence([self.dense("masked_lm/dense", H, E), self.norm("masked_lm/layer_norm", E), bias])


def save(folder: pathlib.Path, values: dict[str, Any] | None = None, **objects: Any) -> str:
    """Writes a checkpoint of the objects and a configuration beside it."""
    import tensorflow as tf

    folder.mkdir(exist_ok=True)
    if values is not None:
        (folder / "albert_config.json").write_text(json.dumps(values))
    return str(tf.train.Checkpoint(**objects).write(str(folder / "bert_model.ckpt")))


def read(path: str, head: str | None = None) -> tuple[HeadConfig, dict[str, np.ndarray], list[Row]]:
    assert model_garden.recognises(path)
    model = model_garden.open_model(path, head=head)
    with model.weights:
        matched = match(model)
        return model.head, dict(matched), [row for row in matched.rows if row.status == "ignored"]


def assert_read(found: dict[str, np.ndarray], tree: Tree, head: HeadConfig, config: AlbertConfig = CONFIG) -> None:
    assert found.keys() == weight_shapes(config, head).keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, tree.expected[name], err_msg=name)


@pytest.mark.parametrize("name", ["encoder", "model"])
@pytest.mark.parametrize("early", [False, True])
def test_encoder(tmp_path: pathlib.Path, name: str, early: bool) -> None:
    tree = Tree()
    path = save(tmp_path, VALUES, **{name: tree.encoder(early=early)})
    for given in (path, f"{path}.index", str(tmp_path)):
        head, weights, ignored = read(given)
        assert head == HeadConfig(head="encoder")
        assert_read(weights, tree, head)
        assert [row.note for row in ignored] == ["description of the tree of objects"]


def test_encoder_without_projection(tmp_path: pathlib.Path) -> None:
    tree = Tree()
    path = save(tmp_path, {**VALUES, "embedding_size": H}, encoder=tree.encoder(width=H))
    head, weights, _ = read(path)
    assert_read(weights, tree, head, CONFIG.replace(embedding_size=H))
    (tmp_path / "albert_config.json").write_text(json.dumps(VALUES))
    with pytest.raises(ValueError, match="this checkpoint has embedding_projection False, the configuration True"):
        model_garden.open_model(path)


def make_pretrainer(tree: Tree) -> tuple[Any, dict[str, Any]]:
    """BertPretrainerV2 with a sentence head, which has a pooler of its own; and what its trainer saves beside it."""
    encoder = tree.encoder(own_pooler=False)
    masked_lm = tree.masked_lm(encoder)
    pooler = tree.dense("encoder/pooler", H, H)
    sentence = tree.node(dense=pooler, out_proj=tree.dense("sentence_order", H, 2))
    model = tree.node(encoder_network=encoder, masked_lm=masked_lm, classification_heads=[sentence])
    return model, {"encoder": encoder, "masked_lm": masked_lm, "next_sentence.pooler_dense": pooler}


@pytest.mark.parametrize("with_items", [False, True])
def test_pretrainer(tmp_path: pathlib.Path, with_items: bool) -> None:
    import tensorflow as tf

    tree = Tree()
    model, items = make_pretrainer(tree)
    step = tf.Variable(3, dtype=tf.int64)
    optimizer = tree.node(iter=tf.Variable(3, dtype=tf.int64))
    path = save(tmp_path, VALUES, model=model, global_step=step, optimizer=optimizer, **(items if with_items else {}))
    head, weights, ignored = read(path)
    assert head == HeadConfig()
    assert_read(weights, tree, head)
    assert sorted(row.note for row in ignored) == [
        "counter",
        "description of the tree of objects",
        "state of an optimizer",
        *["the encoder's pooler, which its head does not read"] * 2,
    ]
    head, weights, ignored = read(path, head="masked_lm")
    assert head == HeadConfig(head="masked_lm")
    assert_read(weights, tree, head)
    assert [row.theirs for row in ignored if row.note == "no part of the head 'masked_lm'"] == [
        f"model/classification_heads/0/out_proj/{leaf}/.ATTRIBUTES/VARIABLE_VALUE" for leaf in ("bias", "kernel")
    ]
    head, weights, _ = read(path, head="encoder")
    assert_read(weights, tree, head)


def test_masked_lm_alone_with_the_pooler_of_a_head(tmp_path: pathlib.Path) -> None:
    """What `checkpoint_items` of a pretrainer hold, without the model."""
    tree = Tree()
    _, items = make_pretrainer(tree)
    head, weights, _ = read(save(tmp_path, VALUES, **items))
    assert head == HeadConfig(head="masked_lm")
    assert_read(weights, tree, head)


def test_first_pretrainer(tmp_path: pathlib.Path) -> None:
    """BertPretrainer, whose layers are numbered; and its form of version 2.2, with the heads the other way round."""
    tree = Tree()
    encoder = tree.encoder()
    sentence = tree.sequence([tree.dense("sentence_order", H, 2)])
    head, weights, _ = read(
        save(tmp_path / "later", VALUES, model=tree.sequence([encoder, sentence, tree.masked_lm(encoder)]))
    )
    assert_read(weights, tree, head)
    tree = Tree()
    parts = [tree.encoder(early=True), tree.early_masked_lm(), tree.sequence([tree.dense("sentence_order", H, 2)])]
    head, weights, _ = read(save(tmp_path / "early", VALUES, model=tree.sequence(parts)))
    assert head == HeadConfig()
    assert_read(weights, tree, head)


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (HeadConfig(head="classifier", num_labels=7), "out_proj"),
        (HeadConfig(head="regression"), "out_proj"),
        (HeadConfig(head="classifier", num_labels=7), "nested"),
        (HeadConfig(head="token_classifier", num_labels=7), "plain"),
    ],
)
def test_fine_tuned(tmp_path: pathlib.Path, head: HeadConfig, form: str) -> None:
    tree = Tree()
    encoder = tree.encoder()
    layer = tree.dense(head.head, H, head.num_labels or 1)
    if form != "plain":
        layer = tree.node(out_proj=layer) if form == "out_proj" else tree.sequence([layer])
    found, weights, _ = read(save(tmp_path, VALUES, model=tree.sequence([encoder, layer]), encoder=encoder))
    assert found == head
    assert_read(weights, tree, found)


def test_two_outputs_may_be_a_span_or_two_labels(tmp_path: pathlib.Path) -> None:
    tree = Tree()
    model = tree.sequence([tree.encoder(), tree.sequence([tree.dense("span", H, 2)])])
    path = save(tmp_path, VALUES, model=model)
    with pytest.raises(ValueError, match=r"bert_model\.ckpt: its head may be classifier or span: say which with"):
        model_garden.open_model(path)
    head, weights, _ = read(path, head="span")
    assert head == HeadConfig(head="span")
    assert_read(weights, tree, head)
    assert read(path, head="classifier")[0] == HeadConfig(head="classifier", num_labels=2)
    own = HeadConfig(head="classifier", labels=("no", "yes"), dropout_prob=0.25)
    (tmp_path / "head_config.json").write_text(own.to_json())
    assert read(path)[0] == own
    with pytest.raises(ValueError, match="its head is classifier or span, of which 'masked_lm' cannot be taken"):
        model_garden.open_model(path, head="masked_lm")


PARAMS = """\
runtime:
  distribution_strategy: mirrored
task:
  model:
    encoder:
      albert:
        attention_dropout_rate: 0.25
        dropout_rate: 0.125
        embedding_width: 5
        hidden_activation: gelu
        hidden_size: 12
        initializer_range: 0.03
        intermediate_size: 17
        max_position_embeddings: 19  # tokens
        num_attention_heads: 3
        num_layers: 4
        type_vocab_size: 2
        vocab_size: 23
      type: albert
  train_data:
    seq_length: 512
"""


def test_params_of_the_trainer(tmp_path: pathlib.Path) -> None:
    path = save(tmp_path, None, model=Tree().encoder())
    with pytest.raises(FileNotFoundError, match=r"No albert_config\.json there, which a checkpoint of the Model"):
        model_garden.open_model(path)
    (tmp_path / "params.yaml").write_text(PARAMS)
    expected = CONFIG.replace(hidden_dropout_prob=0.125, attention_probs_dropout_prob=0.25, initializer_range=0.03)
    assert model_garden.open_model(path).config == expected
    for text, message in (
        (PARAMS.replace("        num_layers: 4\n", ""), r"params\.yaml: has no block 'albert' with num_layers"),
        (PARAMS.replace("num_layers", "depth"), r"params\.yaml: the block 'albert' has an unknown key 'depth'"),
        (PARAMS.replace("albert:", "bert:"), r"params\.yaml: has no block 'albert' with vocab_size"),
        (PARAMS.replace("hidden_size: 12", "hidden_size: wide"), r"params\.yaml: hidden_size must be a whole number"),
    ):
        (tmp_path / "params.yaml").write_text(text)
        with pytest.raises(ValueError, match=message):
            model_garden.open_model(path)


def test_what_is_no_albert_is_refused(tmp_path: pathlib.Path) -> None:
    tree = Tree()
    layers = [tree.block(early=False) for _ in range(2)]
    bert = save(tmp_path / "bert", VALUES, encoder=tree.sequence([tree.node(), *layers]))
    assert model_garden.recognises(bert)
    with pytest.raises(ValueError, match=r"has one transformer layer, this checkpoint 2: is it a BERT model's\?"):
        model_garden.open_model(bert)
    other = save(tmp_path / "other", VALUES, encoder=tree.node(kernel=tree.variable("", (3, 4))))
    assert not model_garden.recognises(other)
    with pytest.raises(ValueError, match="has one transformer layer, this checkpoint none"):
        model_garden.open_model(other)
    assert not model_garden.recognises(str(tmp_path))
    assert not model_garden.recognises(str(tmp_path / "absent"))


@pytest.mark.parametrize(("key", "value"), [("num_hidden_groups", 2), ("inner_group_num", 2)])
def test_groups_are_refused(tmp_path: pathlib.Path, key: str, value: int) -> None:
    path = save(tmp_path, {**VALUES, key: value}, encoder=Tree().encoder())
    with pytest.raises(ValueError, match=rf"config\.json: the Model Garden's ALBERT has {key} 1, the configuration 2"):
        model_garden.open_model(path)


def test_table_of_the_converter() -> None:
    """Keys of the published archives (tf2_albert_encoder_checkpoint_converter.py saves the encoder as `encoder`)."""
    keys = {entry.ours: entry.theirs for entry in model_garden.table(CONFIG, HeadConfig(head="encoder"))}
    ending = "/.ATTRIBUTES/VARIABLE_VALUE"
    assert keys["encoder/embeddings/word_embeddings"] == f"encoder/layer_with_weights-0/embeddings{ending}"
    assert keys[f"{BLOCK}/feed_forward/output/bias"] == f"encoder/layer_with_weights-5/_output_dense/bias{ending}"
    for head in (HeadConfig(), HeadConfig(head="classifier", num_labels=7), HeadConfig(head="span")):
        table = model_garden.table(CONFIG, head)
        assert [entry.ours for entry in table] == list(weight_shapes(CONFIG, head))
        assert len({entry.theirs for entry in table}) == len(table)
    with pytest.raises(ValueError, match="has num_hidden_groups 1, the configuration 2"):
        model_garden.table(CONFIG.replace(num_hidden_groups=2), HeadConfig())
