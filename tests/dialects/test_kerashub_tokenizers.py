"""The tokenizer of a KerasHub preset, in and out: its ids are ours."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from albert_tf.dialects import kerashub
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from tests import wordpiece_toys
from tests.dialects.kerashub_presets import (
    CONFIG,
    HEADS,
    TEXTS,
    assert_same_preset,
    load_theirs,
    read,
    saved,
    toy_vocabulary,
    write_ours,
)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:Exception ignored in")  # KerasHub leaves the vocabulary's file open
@pytest.mark.parametrize("capitals", [False, True])
def test_tokenizer_of_a_written_preset_gives_our_ids(tmp_path: pathlib.Path, capitals: bool) -> None:
    import keras_hub

    config = TokenizerConfig(lower_case=not capitals, strip_accents=True, split_digit_comma=False)
    ours = AlbertTokenizer(toy_vocabulary(capitals=capitals), config=config)
    folder = write_ours(tmp_path / "ours", "classifier", ours)
    theirs = keras_hub.models.AlbertTokenizer.from_preset(str(folder))
    assert [np.asarray(theirs(text)).tolist() for text in TEXTS[:2]] == ours.encode_batch(TEXTS[:2])
    classifier = load_theirs(folder, "classifier")
    row = classifier.preprocessor(TEXTS[0])
    ids = [ours.cls_id, *ours.encode(TEXTS[0]), ours.sep_id][:19]
    assert np.asarray(row["token_ids"]).tolist()[: len(ids)] == ids
    assert row["token_ids"].shape == (19,)
    back = read(folder).model.tokenizer
    assert back is not None
    assert back.encode_batch(TEXTS) == ours.encode_batch(TEXTS)


def test_vocabulary_without_capitals_is_given_lower_case(tmp_path: pathlib.Path) -> None:
    """As in the published presets, whose SentencePiece file is the original's."""
    import keras_hub

    for capitals in (False, True):
        proto = toy_vocabulary(capitals=capitals)
        theirs = keras_hub.models.AlbertTokenizer(proto=proto)
        folder = saved(tmp_path / f"theirs {capitals}", "masked_lm", tokenizer=theirs)
        model = read(folder).model
        assert isinstance(model.tokenizer, AlbertTokenizer)
        assert model.tokenizer.config.lower_case is not capitals
        assert model.tokenizer.config.strip_accents
        assert not model.tokenizer.config.split_digit_comma
        assert any("accents dropped before the vocabulary" in note for note in model.notes)
        text = TEXTS[1] if capitals else TEXTS[1].lower()
        assert model.tokenizer.encode(text) == np.asarray(theirs(text)).tolist()
        assert model.tokenizer.unk_id not in model.tokenizer.encode("DIS áb"[: 3 if capitals else 6].lower())


def test_published_vocabulary_is_prepared_as_the_original_does(
    tmp_path: pathlib.Path, reference_data: pathlib.Path
) -> None:
    vocabulary = tmp_path / "assets" / "tokenizer" / "vocabulary.spm"
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_bytes((reference_data / "data" / "albert_en_30k.model").read_bytes())
    tokenizer, notes = kerashub._read_tokenizer(str(tmp_path), 30000)
    assert isinstance(tokenizer, AlbertTokenizer)
    assert tokenizer.config == TokenizerConfig(lower_case=True, strip_accents=True, split_digit_comma=False)
    assert notes[0].startswith("letters are lowered and accents dropped before the vocabulary")


@pytest.mark.peers
def test_preset_with_tokenizer_is_what_kerashub_writes(tmp_path: pathlib.Path) -> None:
    import keras_hub

    proto = toy_vocabulary(capitals=True)
    plain = TokenizerConfig(lower_case=False, strip_accents=False, split_digit_comma=False)
    ours = AlbertTokenizer(proto, config=plain)
    for head in ("masked_lm", "classifier"):
        theirs = saved(tmp_path / f"theirs {head}", head, tokenizer=keras_hub.models.AlbertTokenizer(proto=proto))
        found = read(theirs)
        folder = tmp_path / f"ours {head}"
        folder.mkdir()
        kerashub.save_model(str(folder), found.model.config, found.model.head, found.weights, ours)
        assert_same_preset(folder, theirs)


def test_other_tokenizers(tmp_path: pathlib.Path) -> None:
    wordpiece = wordpiece_toys.tokenizer()
    assert kerashub.written_notes(CONFIG, HEADS["encoder"], wordpiece) == (
        "KerasHub's ALBERT has no WordPiece: the preset is written without a tokenizer",
    )
    folder = write_ours(tmp_path / "ours", "encoder", wordpiece)
    assert not (folder / "assets").exists()
    (folder / "assets" / "tokenizer").mkdir(parents=True)
    path = folder / "assets" / "tokenizer" / "vocabulary.spm"
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"vocabulary\.spm: not a SentencePiece model"):
        kerashub.open_model(str(folder))
    config = json.loads((folder / "config.json").read_text())
    config["config"]["vocabulary_size"] = 212
    (folder / "config.json").write_text(json.dumps(config))
    path.write_bytes(toy_vocabulary(capitals=True))
    with pytest.raises(ValueError, match=r"vocabulary\.spm: has 211 pieces, the weights are for 212: another model's"):
        kerashub.open_model(str(folder))
