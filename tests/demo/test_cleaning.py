"""English sentences out of docstrings, on hand-made pieces."""

from __future__ import annotations

import pytest

from demo import cleaning

GOOGLE_STYLE = """Reads one record from the file.

The reader keeps its place between calls, e.g. After a pause it goes on. See also `other_reader`.

Args:
  path: The name of the file that the
    record is read from.
  size (int): Number of bytes to read at once.
    - A size of zero means that everything is read.

Returns:
  A record, or nothing at the end.

Example:

>>> reader = Reader("x")
The output of a doctest is not English.

```python
This line is code in a fence.
```

Use it like this:

    reader.read() and some code that looks like text here.

It is never closed by itself.
"""

NUMPY_STYLE = """
Return the sum of the elements.

Parameters
----------
axis : int, optional
    The axis along which the sum is computed.

+-------+-------+
| a     | b     |
+-------+-------+

.. math:: this is a formula of the text
    and it goes on here.

.. note:: The result is a new array.

Notes
-----
See :func:`~numpy.add` and :class:`the array <numpy.ndarray>` for all of the rest [1]_.
"""


def test_google_docstring_keeps_prose_only() -> None:
    assert cleaning.sentences_of(GOOGLE_STYLE) == [
        "Reads one record from the file.",
        "The reader keeps its place between calls, e.g. After a pause it goes on.",
        "The name of the file that the record is read from.",
        "Number of bytes to read at once.",
        "A size of zero means that everything is read.",
        "A record, or nothing at the end.",
        "It is never closed by itself.",
    ]


def test_numpy_docstring_keeps_prose_only() -> None:
    assert cleaning.sentences_of(NUMPY_STYLE) == [
        "Return the sum of the elements.",
        "The axis along which the sum is computed.",
        "The result is a new array.",
        "See numpy.add and the array for all of the rest.",
    ]


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("See `this page <https://x.org>`_ and ``code``.", "See this page and code."),
        ("A [link](https://x.org/a_b) and [another][2] one.", "A link and another one."),
        ("The *last* item and **all**  others; 3 * 4 * 5.", "The last item and all others; 3 * 4 * 5."),
        ("It\u2019s \u201cquoted\u201d \u2014 so.", 'It\'s "quoted" - so.'),
        (":py:meth:`~a.b.c` runs.", "a.b.c runs."),
    ],
)
def test_plain_text_drops_markup(marked: str, plain: str) -> None:
    assert cleaning.plain_text(marked) == plain


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is here. Two is there! Is three? Four", ["One is here.", "Two is there!", "Is three?", "Four"]),
        ("E.g. None and J. Smith et al. Found it. New one.", ["E.g. None and J. Smith et al. Found it.", "New one."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("Version 2.5 of np.add is used. lower case goes on.", ["Version 2.5 of np.add is used. lower case goes on."]),
        ("", []),
    ],
)
def test_split_sentences(text: str, sentences: list[str]) -> None:
    assert cleaning.split_sentences(text) == sentences


@pytest.mark.parametrize(
    ("sentence", "english"),
    [
        ("The shape of the array is kept.", True),
        ("A list of names (in any order).", True),
        ("Too few words.", False),
        ("lower case starts this fragment of a sentence.", False),
        ("This one has no end", False),
        ("The value is x = y in all of the cases.", False),
        ("See https://example.org for the whole of it.", False),
        ("Int float_32 np.uint8 tf.int64 a_b c.d of e.f.", False),
        ("Tensor Tensor Tensor Tensor.", False),
        ("Größe und Länge of the thing in it.", False),
        ("The word " + "and " * 80 + "end.", False),
    ],
)
def test_is_english_sentence(sentence: str, english: bool) -> None:
    assert cleaning.is_english_sentence(sentence) is english


def test_word_keys_ignore_case_and_punctuation() -> None:
    assert cleaning.word_keys("The np.Array's size, (2) of 3!") == ("the", "np", "array", "s", "size", "2", "of", "3")
