"""Tokenizers: splits, merges, special tokens, and what has no text."""

import pytest

from tokenpath.sw.model.text import (
    PRE_TOKENIZERS,
    CharBpe,
    CharTokenizer,
    FastTokenizer,
    byte_level_bpe,
    guarded,
)


def bytes_as_letters():
    """GPT-2's printable stand-ins for the 256 bytes, in the order of its vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(rest)}
    return [letters[byte] for byte in range(256)]


BYTES = bytes_as_letters()
MERGES = [("1", "2"), ("12", "3"), ("Ġ", "a"), ("a", "b"), ("ab", "c"), ("!", "Ċ"), ("'", "s")]
TOKENS = [*BYTES, *(left + right for left, right in MERGES), "<end>", "<mark>"]


def made(pre, merges=MERGES, tokens=TOKENS):
    return byte_level_bpe(
        tokens=tokens, merges=merges, pre=pre, control=["<end>"], user_defined=["<mark>"]
    )


def pieces(tokenizer, text):
    return [TOKENS[i] for i in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("pre", "numbers"),
    [
        ("gpt-2", ["123", "12"]),
        ("default", ["123", "12"]),
        ("smollm", ["1", "2", "3", "1", "2"]),
        ("qwen2", ["1", "2", "3", "1", "2"]),
        ("llama-bpe", ["123", "12"]),
    ],
)
def test_each_split_treats_digits_its_way(pre, numbers):
    assert pieces(made(pre), "12312") == numbers
    assert set(PRE_TOKENIZERS) == {"gpt-2", "default", "smollm", "qwen2", "llama-bpe"}


def test_llama_splits_at_three_digits_and_keeps_newlines_with_marks():
    assert pieces(made("llama-bpe"), "3123") == ["3", "12", "3"]
    assert pieces(made("llama-bpe"), "1231") == ["123", "1"]
    assert pieces(made("llama-bpe"), "!\n") == ["!Ċ"]
    assert pieces(made("gpt-2"), "!\n") == ["!", "Ċ"]
    assert pieces(made("qwen2"), "X'S") == ["X", "'", "S"]


def test_llama_takes_a_whole_word_that_no_merge_reaches():
    tokens = [*TOKENS, "xyz"]
    assert made("llama-bpe", tokens=tokens).encode("xyz") == [len(TOKENS)]
    assert made("qwen2", tokens=tokens).encode("xyz") == [BYTES.index(c) for c in "xyz"]


def test_qwen_composes_its_text_first():
    assert made("qwen2").encode("e\u0301") == made("qwen2").encode("é")
    assert made("gpt-2").encode("e\u0301") != made("gpt-2").encode("é")


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
@pytest.mark.parametrize("text", ["", " abc  ab\n\n\tx", "größer 123 日本 🙂", "it's <mark> a"])
def test_text_survives_a_round_trip(pre, text):
    tokenizer = made(pre)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_special_tokens_are_tokens_and_control_ones_have_no_text():
    tokenizer = made("gpt-2")
    assert pieces(tokenizer, "abc<end>ab<mark>") == ["abc", "<end>", "ab", "<mark>"]
    assert tokenizer.decode(tokenizer.encode("abc<end>ab<mark>")) == "abcab<mark>"


def test_a_panic_of_the_library_is_one_line_and_an_interrupt_passes(tmp_path, refused):
    class Panic(BaseException):
        pass

    def build(error):
        raise error

    message = refused(guarded, tmp_path / "t.json", lambda: build(Panic("it\nbroke")))
    assert "t.json: the tokenizer can't be read (it broke)" in message
    with pytest.raises(KeyboardInterrupt):
        guarded(tmp_path, lambda: build(KeyboardInterrupt()))
    assert guarded(tmp_path, lambda: 5) == 5


def test_a_template_with_an_end_token_is_no_bos():
    import tokenizers

    library = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[S]": 1, "[E]": 2}))
    assert FastTokenizer(library).first_special() is None
    for single, first in (("[S] $A", 1), ("[S] $A [E]", None), ("$A", None)):
        library.post_processor = tokenizers.processors.TemplateProcessing(
            single=single, special_tokens=[("[S]", 1), ("[E]", 2)]
        )
        assert FastTokenizer(library).first_special() == first


CHAR = CharBpe(["\n", "a", "b", "▁"], [("a", "b"), ("▁", "a"), ("▁", "ab"), ("b", "b"), ("a", "a")])
# ids: \n 4, a 5, b 6, ▁ 7, ab 8, ▁a 9, ▁ab 10, bb 11, aa 12


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("ab", [8]),
        (" ab", [10]),
        (" aab", [9, 8]),
        ("aaa", [12, 5]),
        ("bbbb", [11, 11]),
        ("abab", [8, 8]),
        ("a b", [5, 7, 6]),
        ("  a", [7, 9]),
        ("b \n b", [6, 7, 4, 7, 6]),
        ("axb", [5, 1, 6]),
        ("", []),
    ],
)
def test_character_bpe_merges_inside_chunks_the_earliest_pair_first(text, ids):
    assert CHAR.encode(text) == ids
    assert CHAR.decode(ids) == text.replace("x", "\u2047")


def test_character_bpe_composes_text_and_gives_control_tokens_none():
    tokenizer = CharBpe(["é"], [])
    assert tokenizer.encode("e\u0301") == [4] and len(tokenizer) == 5
    assert tokenizer.decode([2, 4, 3, 0]) == "é"


def test_one_token_a_character(refused):
    tokenizer = CharTokenizer({"</s>": 2, "1": 5, "+": 7})
    assert tokenizer.encode("1+1") == [5, 7, 5]
    assert tokenizer.decode([5, 7, 2, 99]) == "1+"
    assert refused(tokenizer.encode, "1x") == (
        "character 'x' isn't in this model's vocabulary; use '1+'"
    )
