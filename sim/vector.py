"""The compute engine's operations on one tile: what each means, for the golden model."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.params import Arch, Format

from .compiled import array

if TYPE_CHECKING:
    from .golden import Tile

Words = Any


class VectorUnit:
    """Executes compute instructions on a tile's memories and counts what it clamps and
    wraps."""

    def __init__(self, arch: Arch, tile: "Tile") -> None:
        self.arch = arch
        self.tile = tile
        self.saturations = 0
        self.overflows = 0

    def execute(self, op: Op, i: dict[str, int]) -> None:
        """Run one instruction with resolved operands."""
        getattr(self, op.name.lower())(i)

    # --- streams ---

    def _rows(self, i: dict[str, int]) -> tuple[Words, Words]:
        """The next n rows of the stream: elements (n, beats, blocks, block) and scales (n,
        beats, blocks)."""
        arch, beats = self.arch, self.arch.row_beats(i["m"])
        taken = [self.tile.stream.popleft() for _ in range(i["n"] * beats)]
        shape = (i["n"], beats, arch.blocks_per_beat)
        elements = np.array([t[0] for t in taken], np.int64).reshape(*shape, arch.numeric.block)
        scales = np.array([t[1] for t in taken], np.int64).reshape(shape)
        return elements, scales

    def _clamp(self, terms: Words, headroom: int) -> Words:
        limit = numeric.term_limit(headroom)
        clamped = np.clip(terms, -limit, limit)
        self.saturations += int(np.count_nonzero(clamped != terms))
        return clamped

    def _dots(
        self, i: dict[str, int], query: int, rows: tuple[Words, Words], frac: int, fmt: Format
    ) -> Words:
        """Sum over blocks of the once-rounded product sums of each row with one resident
        vector."""
        elements, scales = rows
        beats = self.arch.row_beats(i["m"])
        at = i["src"] + query * self.arch.operand_beats
        vector = self.tile.operand[at : at + beats].reshape(elements.shape[1:])
        sums = (elements * vector).sum(axis=-1)
        k_act = self.arch.numeric.act.mantissa_bits
        terms = array.dot_term(
            sums, scales, self.tile.operand_scales[at : at + beats], fmt.mantissa_bits, k_act, frac
        )
        return self._clamp(terms, i["y"]).sum(axis=(1, 2))

    def dot(self, i: dict[str, int]) -> None:
        """One number a row into vector memory."""
        result = self._dots(i, 0, self._rows(i), i["x"], self.arch.numeric.weight)
        self._wrap(i["dst"], result)

    def score(self, i: dict[str, int]) -> None:
        """Scores of q queries into score memory; the maximum of the rounded-up scores into
        vector memory."""
        rows, frac = self._rows(i), self.arch.numeric.score_frac
        for query in range(i["q"]):
            scores = numeric.wrap(self._dots(i, query, rows, frac, self.arch.numeric.kv))
            self.tile.scores[query, i["bux"] : i["bux"] + i["n"]] = scores
            maximum = array.ceil_score(scores, frac).max() if i["n"] else numeric.NO_ROWS
            self.tile.vector[i["dst"] + query] = maximum

    def axpy(self, i: dict[str, int]) -> None:
        """Sums of p and of p times each row of V, p = 2**(score - maximum)."""
        elements, scales = self._rows(i)
        numbers, m, headroom = self.arch.numeric, i["m"], i["y"]
        bits, k, sum_frac = numbers.act.bits, numbers.kv.mantissa_bits, numbers.sum_frac(headroom)
        for query in range(i["q"]):
            maximum = self.tile.vector[i["src"] + query]
            score = self.tile.scores[query, i["bux"] : i["bux"] + i["n"]] - (
                maximum << numbers.score_frac
            )
            mantissa = array.weight_mantissa(score, numbers.score_frac, bits)
            shift = bits - 1 - (score >> numbers.score_frac)
            total = self._clamp(array.shift_round(mantissa, shift - sum_frac), headroom).sum()
            factor = mantissa[:, None, None] * array.scale_mantissa(scales, k)
            down = shift[:, None, None] + k - array.scale_exponent(scales, k) - i["x"]
            terms = array.shift_round(factor[..., None] * elements, down[..., None])
            sums = self._clamp(terms, headroom).sum(axis=0).reshape(-1)
            self.tile.vector[i["dst"] + query * m : i["dst"] + (query + 1) * m] = numeric.wrap(
                sums[:m]
            )
            self.tile.vector[i["aux"] + query] = numeric.wrap(total)

    def load(self, i: dict[str, int]) -> None:
        """Rows of the store as words."""
        elements, scales = self._rows(i)
        k = self.arch.numeric.weight.mantissa_bits
        words = array.dequantise(elements, scales[..., None], k, i["x"])
        words = words.reshape(i["n"], self.arch.row_beats(i["m"]) * self.arch.lanes)[:, : i["m"]]
        self.tile.vector[i["dst"] : i["dst"] + i["n"] * i["m"]] = words.reshape(-1)

    # --- words ---

    def _read(self, at: int, words: int) -> Words:
        return self.tile.vector[at : at + words].copy()

    def _store(self, at: int, words: Words) -> None:
        """Write words that an operation saturates, counting those at the rails."""
        self.saturations += int(
            np.count_nonzero((words == numeric.WORD_MAX) | (words == numeric.WORD_MIN))
        )
        self.tile.vector[at : at + len(words)] = words

    def _wrap(self, at: int, sums: Words) -> None:
        """Write sums modulo 2**32, counting those that a word doesn't hold."""
        wrapped = numeric.wrap(sums)
        self.overflows += int(np.count_nonzero(wrapped != sums))
        self.tile.vector[at : at + len(sums)] = wrapped

    def _slots(self, i: dict[str, int]) -> Words:
        """The words to combine: m slots of n words, and the initial words when q is set."""
        slots = [self._read(i["src"] + s * i["aux"], i["n"]) for s in range(i["m"])]
        every = ([self._read(i["bux"], i["n"])] if i["q"] else []) + slots
        return np.array(every, np.int64).reshape(len(every), i["n"])

    def sum(self, i: dict[str, int]) -> None:
        """Sum of slots, modulo 2**32."""
        self._wrap(i["dst"], self._slots(i).sum(axis=0))

    def max(self, i: dict[str, int]) -> None:
        """Maximum of slots."""
        self.tile.vector[i["dst"] : i["dst"] + i["n"]] = self._slots(i).max(
            axis=0, initial=numeric.WORD_MIN
        )

    def rms(self, i: dict[str, int]) -> None:
        """RMSNorm of m vectors; constants are n * eps, sqrt(n) normalised to [1, 2) and its
        exponent."""
        n = i["n"]
        epsilon, root, exponent = (int(v) for v in self._read(i["aux"], 3))
        for vector in range(i["m"]):
            words = self._read(i["src"] + vector * n, n)
            squares = int(array.square(words).sum()) + epsilon
            factor, shift = (
                numeric.rms_factor(squares, root),
                numeric.rms_shift(squares, exponent, i["x"], i["y"]),
            )
            out = array.saturate(array.shift_round(words * factor, shift))
            if i["q"]:
                out = array.saturate(array.shift_round(out * self._read(i["bux"], n), 16))
            self._store(i["dst"] + vector * n, out)

    def rope(self, i: dict[str, int]) -> None:
        """Rotate each adjacent pair of words by its cosine and sine."""
        table = self._read(i["aux"], i["n"])
        cos, sin = table[0::2], table[1::2]
        words = self._read(i["src"], i["n"] * i["m"]).reshape(i["m"], i["n"] // 2, 2)
        a, b = words[..., 0], words[..., 1]
        turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
        self._store(
            i["dst"], array.saturate(array.shift_round(turned, numeric.ROPE_FRAC)).reshape(-1)
        )

    def silu(self, i: dict[str, int]) -> None:
        """SiLU(gate) * up."""
        gate, up = self._read(i["src"], i["n"]), self._read(i["aux"], i["n"])
        self._store(i["dst"], array.silu_mul(gate, up, i["x"]))

    def div(self, i: dict[str, int]) -> None:
        """Each of m vectors over its denominator."""
        above = self._read(i["src"], i["n"] * i["m"]).reshape(i["m"], i["n"])
        below = self._read(i["aux"], i["m"])[:, None]
        self._store(i["dst"], array.divide(above, below, i["x"], i["y"], i["q"]).reshape(-1))

    def quant(self, i: dict[str, int]) -> None:
        """Words to blocks, in operand memory or in the append buffer."""
        arch, fmt = self.arch, self.arch.numeric.kv if i["y"] else self.arch.numeric.act
        elements, scales = (
            (self.tile.append, self.tile.append_scales)
            if i["y"]
            else (self.tile.operand, self.tile.operand_scales)
        )
        beats, block = arch.row_beats(i["n"]), arch.numeric.block
        stride = beats if i["y"] else arch.operand_beats
        for vector in range(i["m"]):
            words = np.zeros(beats * arch.lanes, np.int64)
            words[: i["n"]] = self._read(i["src"] + vector * i["n"], i["n"])
            blocks = words.reshape(beats, arch.blocks_per_beat, block)
            codes = array.block_scale(
                np.abs(blocks).max(axis=-1), i["x"], fmt.bits, fmt.mantissa_bits
            )
            at = i["dst"] + vector * stride
            scales[at : at + beats] = codes
            elements[at : at + beats] = array.block_element(
                blocks, codes[..., None], i["x"], fmt.bits, fmt.mantissa_bits
            ).reshape(beats, arch.lanes)

    def merge(self, i: dict[str, int]) -> None:
        """Records (maxima, sums of p, weighted sums) aligned to the larger maximum by a shift
        and added, in order."""
        q, n = i["q"], i["n"]
        words = q * (n + 2)
        result = self._read(i["src"], words)
        for record in range(1, i["m"]):
            other = self._read(i["src"] + record * i["aux"], words)
            maximum = np.maximum(result[:q], other[:q])
            down, other_down = (np.minimum(maximum - r[:q], 63) for r in (result, other))
            result[q : 2 * q] = (result[q : 2 * q] >> down) + (other[q : 2 * q] >> other_down)
            result[2 * q :] = (result[2 * q :] >> np.repeat(down, n)) + (
                other[2 * q :] >> np.repeat(other_down, n)
            )
            result[:q] = maximum
        self.tile.vector[i["dst"] : i["dst"] + words] = numeric.wrap(result)

    def argmax(self, i: dict[str, int]) -> None:
        """Largest word and its index; the first of equals.

        No words give the smallest word and index -1.
        """
        words = self._read(i["src"], i["n"])
        best = int(words.argmax()) if i["n"] else -1
        self.tile.vector[i["dst"]] = words[best] if i["n"] else numeric.WORD_MIN
        self.tile.vector[i["dst"] + 1] = i["aux"] + best if i["n"] else -1

    def argpair(self, i: dict[str, int]) -> None:
        """The (value, index) pair with the largest value, the first of equals; no pairs change
        nothing."""
        if not i["n"]:
            return
        pairs = self._read(i["src"], 2 * i["n"]).reshape(-1, 2)
        self.tile.vector[i["dst"] : i["dst"] + 2] = pairs[int(pairs[:, 0].argmax())]
