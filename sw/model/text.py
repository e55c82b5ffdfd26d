"""Tokenizers behind one protocol: byte-level BPE of big models, and those of the two small ones.

The library `tokenizers` is imported where it is used, so that importing this package stays quick.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tokenpath.hw.arch.errors import InputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library


_Built = TypeVar("_Built")


class FastTokenizer:
    """A tokenizer of the library `tokenizers`."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def encode(self, text: str) -> list[int]:
        return list(self._library.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        return str(self._library.decode(ids, skip_special_tokens=True))

    def first_special(self) -> int | None:
        """The token that the tokenizer's own template puts before a text, None for none."""
        with_template = self._library.encode("a", add_special_tokens=True).ids
        plain = self._library.encode("a", add_special_tokens=False).ids
        before = with_template[: len(with_template) - len(plain)]
        return int(before[0]) if before and with_template[1:] == plain else None


def guarded(path: Path, build: Callable[[], _Built]) -> _Built:
    """`build()`, any complaint of the library (a panic too) as InputError about `path`."""
    try:
        return build()
    except (KeyboardInterrupt, SystemExit, InputError):
        raise
    except BaseException as error:  # the library's panics derive from BaseException
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: the tokenizer can't be read ({reason}); use the one of the checkpoint"
        ) from error


def load_tokenizer_json(path: Path) -> FastTokenizer:
    """The tokenizer of a Hugging Face tokenizer.json; InputError when it can't be read."""
    from tokenizers import Tokenizer

    library: Library = guarded(path, lambda: Tokenizer.from_file(str(path)))
    library.no_truncation()
    library.no_padding()
    return FastTokenizer(library)


_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

PRE_TOKENIZERS = ("gpt-2", "default", "smollm", "llama-bpe", "qwen2")
"""The splits before BPE that are understood, by their name in a GGUF file."""


def _pre_tokenizer(pre: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if pre in ("gpt-2", "default"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    split = pre_tokenizers.Split(Regex(_LLAMA3 if pre == "llama-bpe" else _QWEN2), "isolated")
    return pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def byte_level_bpe(
    *,
    tokens: Sequence[str],
    merges: Sequence[tuple[str, str]],
    pre: str,
    control: Sequence[str],
    user_defined: Sequence[str],
) -> FastTokenizer:
    """Byte-level BPE from the lists of a GGUF file; `pre` is one of :data:`PRE_TOKENIZERS`.

    `control` tokens are recognised in a text and have no text of their own, `user_defined` ones
    are recognised and keep their text.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

    vocabulary = {token: index for index, token in enumerate(tokens)}
    model = models.BPE(vocabulary, list(merges), ignore_merges=pre == "llama-bpe")
    library = Tokenizer(model)
    if pre == "qwen2":
        library.normalizer = normalizers.NFC()
    library.pre_tokenizer = _pre_tokenizer(pre)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    library.add_tokens([AddedToken(t, normalized=False) for t in user_defined])
    return FastTokenizer(library)


class CharBpe:
    """BPE on characters with visible spaces, the tokenizer of the glassllm models.

    Text is brought to NFC, a space becomes U+2581, and merges stay inside chunks: a newline, a
    run of characters with the spaces before it, or a run of spaces. Ids are four special tokens
    (pad, unk, bos, eos), the alphabet, then one token a merge.
    """

    SPACE = "\u2581"
    UNKNOWN, SPECIALS = 1, 4
    UNKNOWN_TEXT = "\u2047"
    _CHUNK = re.compile("\n|\u2581*[^\u2581\n]+|\u2581+")

    def __init__(self, alphabet: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
        self._pieces = [*alphabet, *(left + right for left, right in merges)]
        self._ids = {piece: i for i, piece in enumerate(self._pieces, self.SPECIALS)}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}

    def __len__(self) -> int:
        return self.SPECIALS + len(self._pieces)

    def encode(self, text: str) -> list[int]:
        visible = unicodedata.normalize("NFC", text).replace(" ", self.SPACE)
        pieces = [p for chunk in self._CHUNK.findall(visible) for p in self._merge(list(chunk))]
        return [self._ids.get(piece, self.UNKNOWN) for piece in pieces]

    def _merge(self, pieces: list[str]) -> list[str]:
        """The pieces of a chunk after all merges, the earliest learnt pair first."""
        while True:
            pairs = [pair for pair in pairwise(pieces) if pair in self._ranks]
            if not pairs:
                return pieces
            best = min(pairs, key=self._ranks.__getitem__)
            merged: list[str] = []
            for piece in pieces:
                if merged and (merged[-1], piece) == best:
                    merged[-1] += piece
                else:
                    merged.append(piece)
            pieces = merged

    def decode(self, ids: list[int]) -> str:
        texts = (self._text(i) for i in ids)
        return "".join(texts).replace(self.SPACE, " ")

    def _text(self, token: int) -> str:
        if token < self.SPECIALS:
            return self.UNKNOWN_TEXT if token == self.UNKNOWN else ""
        return self._pieces[token - self.SPECIALS]


class CharTokenizer:
    """One token a character, the tokenizer of the mathformer models."""

    def __init__(self, ids: dict[str, int]) -> None:
        """`ids` has characters, and control tokens in angle brackets (``</s>``)."""
        self._ids = {piece: i for piece, i in ids.items() if len(piece) == 1}
        self._texts = {i: piece for piece, i in self._ids.items()}

    def encode(self, text: str) -> list[int]:
        for character in text:
            if character not in self._ids:
                raise InputError(
                    f"character {character!r} isn't in this model's vocabulary; "
                    f"use {''.join(self._ids)!r}"
                )
        return [self._ids[character] for character in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(self._texts.get(i, "") for i in ids)
