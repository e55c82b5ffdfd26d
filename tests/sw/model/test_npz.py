"""The glassllm format: transposed matrices, bounded reading, and nothing pickled."""

import io
import json
import zipfile

import numpy as np
import pytest

from tokenpath.sw.model import npz
from tokenpath.sw.model.reference import Reference

CONFIG = {
    "vocab_size": 12,
    "d_model": 8,
    "n_layers": 2,
    "n_heads": 2,
    "n_kv_heads": 1,
    "max_len": 16,
    "rope_base": 1e4,
    "eps": 1e-6,
    "init_std": 0.02,
}
FFN = 21


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"E": (12, 8), "norm_f.gamma": (8,)}
    for i in range(2):
        block = {"W_Q": (8, 8), "W_K": (8, 4), "W_V": (8, 4), "W_O": (8, 8)}
        shapes |= {f"blocks.{i}.attn.{n}": s for n, s in block.items()}
        shapes |= {f"blocks.{i}.ffn.{n}": (8, FFN) for n in ("W1", "W3")}
        shapes |= {f"blocks.{i}.ffn.W2": (FFN, 8)}
        shapes |= {f"blocks.{i}.{n}.gamma": (8,) for n in ("norm1", "norm2")}
    return {n: rng.normal(size=s).astype(np.float16) for n, s in shapes.items()}


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
    return buffer.getvalue()


@pytest.fixture
def write(tmp_path):
    """Writes an .npz and a tokenizer; `raw` replaces members by bytes, None leaves one out."""

    def put(config=CONFIG, held=None, raw=None, tokenizer=None):
        text = json.dumps(config) if isinstance(config, dict) else config
        members = {name: npy(a) for name, a in (held or arrays()).items()}
        members["__config__"] = npy(np.array(text))
        members |= raw or {}
        path = tmp_path / "x.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                if data is not None:
                    archive.writestr(f"{name}.npy", data)
        words = {"alphabet": list("abcd"), "merges": [["a", "b"]]}
        other = tmp_path / "x.tokenizer.json"
        other.write_text(json.dumps(words if tokenizer is None else tokenizer))
        return path, other

    return put


def test_every_tensor_is_read_out_by_in(write):
    held = arrays()
    spec = npz.load(*write(), name="tiny")
    known = {
        "embed": held["E"],
        "head": held["E"],
        "final_norm": held["norm_f.gamma"],
        "layers.1.attn_norm": held["blocks.1.norm1.gamma"],
        "layers.1.ffn_norm": held["blocks.1.norm2.gamma"],
        "layers.0.q": held["blocks.0.attn.W_Q"].T,
        "layers.0.k": held["blocks.0.attn.W_K"].T,
        "layers.1.v": held["blocks.1.attn.W_V"].T,
        "layers.0.o": held["blocks.0.attn.W_O"].T,
        "layers.0.gate": held["blocks.0.ffn.W1"].T,
        "layers.1.up": held["blocks.1.ffn.W3"].T,
        "layers.0.down": held["blocks.0.ffn.W2"].T,
    }
    for name, array in known.items():
        assert np.array_equal(spec.tensor(name), array.astype(np.float32)), name
    shape = spec.shape
    assert (shape.name, shape.ffn, shape.head_dim, shape.context) == ("tiny", FFN, 4, 16)
    assert shape.rope_pairing == "adjacent" and shape.tied
    assert spec.encode_prompt("abd") == [8, 7]
    assert Reference(spec).step(3).shape == (12,)


def huge_header(count):
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': ({count}, 8), }}"
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


BAD = {
    "pickled weights": (
        {"raw": {"E": npy(np.array([{"a": 1}], dtype=object))}},
        "array E holds pickled objects, which are never loaded",
    ),
    "pickled config": (
        {"raw": {"__config__": npy(np.array({"a": 1}, dtype=object))}},
        "array __config__ holds pickled objects",
    ),
    "missing array": ({"raw": {"blocks.1.attn.W_K": None}}, "lacks array blocks.1.attn.W_K"),
    "missing config": ({"raw": {"__config__": None}}, "lacks array __config__"),
    "shape": ({"raw": {"E": npy(np.zeros((8, 12), np.float16))}}, "has shape (8, 12), not (12, 8)"),
    "dtype": ({"raw": {"E": npy(np.zeros((12, 8), np.int8))}}, "array E has dtype int8"),
    "double": ({"raw": {"E": npy(np.zeros((12, 8)))}}, "array E has dtype float64"),
    "order": (
        {"raw": {"E": npy(np.asfortranarray(np.zeros((12, 8), np.float16)))}},
        "is in Fortran order",
    ),
    "enormous": ({"raw": {"E": huge_header(1 << 50)}}, "array E has shape (1125899906842624, 8)"),
    "no npy": ({"raw": {"E": b"hello"}}, "is damaged at array E"),
    "nested header": (
        {"raw": {"E": b"\x93NUMPY\x01\x00\x10\x27" + b"(" * 10000}},
        "is damaged at array E",
    ),
    "npy version": ({"raw": {"E": b"\x93NUMPY\x03\x00" + bytes(99)}}, "has .npy version (3, 0)"),
    "config is no text": ({"raw": {"__config__": npy(np.zeros(3))}}, "__config__ is no short text"),
    "config is huge": ({"config": "x" * 20000}, "__config__ is no short text"),
    "config is no json": ({"config": "layers: 4"}, "is no valid JSON"),
    "config is a list": ({"config": "[1]"}, "holds a JSON list"),
    "config lacks": ({"config": {"d_model": 8, "n_heads": 2}}, "n_layers None is not a size"),
    "heads": ({"config": {**CONFIG, "n_heads": 3}}, "head count that doesn't divide"),
    "kv heads": ({"config": {**CONFIG, "n_heads": 4, "n_kv_heads": 3}}, "that doesn't divide"),
    "layers": ({"config": {**CONFIG, "n_layers": 1 << 40}}, "n_layers 1099511627776 is not a size"),
    "more layers": ({"config": {**CONFIG, "n_layers": 3}}, "lacks array blocks.2.norm1.gamma"),
    "eps": ({"config": {**CONFIG, "eps": "x"}}, "eps 'x' is not a number"),
    "flat gate": ({"raw": {"blocks.0.ffn.W1": npy(np.zeros(3, np.float16))}}, "has shape (3,)"),
    "tokens": ({"tokenizer": {"alphabet": list("abcdefghi"), "merges": []}}, "has 13 tokens"),
    "tokenizer": ({"tokenizer": {"alphabet": "abc", "merges": []}}, "has no alphabet and merges"),
    "merges": ({"tokenizer": {"alphabet": ["a"], "merges": [["a"]]}}, "no alphabet and merges"),
    "letters": ({"tokenizer": {"alphabet": ["a"], "merges": [["a", 1]]}}, "no alphabet and"),
    "no object": ({"tokenizer": [1]}, "holds a JSON list"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_model_is_refused_by_name(write, refused, peak_bytes, case):
    changes, message = BAD[case]
    paths = write(**changes)
    assert message in refused(npz.load, *paths, name="tiny")
    assert peak_bytes(lambda: npz.load(*paths, name="tiny")) < 8 << 20


def test_an_array_shorter_than_its_header_is_refused_when_read(write, refused):
    short = npy(np.ones((12, 8), np.float16))[:-2]
    spec = npz.load(*write(raw={"E": short}), name="tiny")
    assert "array E is truncated" in refused(spec.tensor, "embed")


def test_a_bomb_is_unpacked_no_further_than_the_array(write, peak_bytes):
    bomb = npy(np.ones((12, 8), np.float16)) + bytes(200 << 20)
    spec = npz.load(*write(raw={"E": bomb}), name="tiny")
    del bomb
    assert peak_bytes(lambda: spec.tensor("embed")) < 4 << 20
    assert np.array_equal(spec.tensor("embed"), np.ones((12, 8), np.float32))


def test_a_truncated_archive_and_a_missing_one_are_refused(write, refused):
    path, tokenizer = write()
    whole = path.read_bytes()
    for size in range(0, len(whole), 101):
        path.write_bytes(whole[:size])
        assert "is damaged at array" in refused(npz.load, path, tokenizer, name="tiny")
    path.unlink()
    assert "No such file" in refused(npz.load, path, tokenizer, name="tiny")


def test_a_flipped_bit_in_packed_weights_is_noticed(write, refused):
    path, tokenizer = write()
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("blocks.0.ffn.W2.npy").header_offset
    damaged = bytearray(path.read_bytes())
    damaged[start + 300] ^= 0x10
    path.write_bytes(damaged)
    message = refused(lambda: npz.load(path, tokenizer, name="tiny").tensor("layers.0.down"))
    assert "is damaged at array blocks.0.ffn.W2" in message


def test_weights_that_are_no_numbers_are_refused_by_name(write, refused):
    held = arrays()
    held["blocks.1.attn.W_V"][2, 2] = np.nan
    spec = npz.load(*write(held=held), name="tiny")
    assert "tensor layers.1.v of tiny has NaN" in refused(spec.tensor, "layers.1.v")
