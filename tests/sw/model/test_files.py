"""Readers of foreign files: every surprise is one line about the file."""

import numpy as np
import pytest

from tokenpath.sw.model.files import bfloat16_to_float32, brief, read_bytes_at, read_json


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no valid JSON"),
        (b"{", "is no valid JSON"),
        (b"[1, 2]", "holds a JSON list; it has to be an object"),
        (b"null", "holds a JSON NoneType"),
        (b"\xff\xfe{}", "is not text in UTF-8"),
        (b"[" * 100_000, "is no valid JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is no valid JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(tmp_path, refused, content, message):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    answer = refused(read_json, file)
    assert message in answer and str(file) in answer


def test_a_file_that_is_missing_or_huge_is_refused(tmp_path, refused):
    assert "No such file" in refused(read_json, tmp_path / "none.json")
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate((16 << 20) + 1)
    assert "larger than 16 MB" in refused(read_json, huge)
    assert "Is a directory" in refused(read_json, tmp_path)


def test_bytes_come_from_the_offset_and_no_further_than_the_end(tmp_path, refused):
    file = tmp_path / "data"
    file.write_bytes(bytes(range(10)))
    assert read_bytes_at(file, 3, 4).tolist() == [3, 4, 5, 6]
    assert "is truncated: it ends at byte 10" in refused(read_bytes_at, file, 8, 3)
    assert "can't be read" in refused(read_bytes_at, tmp_path / "none", 0, 1)


def test_bfloat16_is_the_upper_half_of_float32():
    values = np.array([1.0, -2.5, 3.0e38, 1e-40, 0.0], np.float32)
    upper = (values.view(np.uint32) >> 16).astype("<u2")
    back = bfloat16_to_float32(upper.view(np.uint8))
    assert np.array_equal(back.view(np.uint32), values.view(np.uint32) & 0xFFFF0000)


def test_a_long_value_is_cut_to_one_line():
    assert brief("x" * 100) == "'" + "x" * 56 + "..."
    assert "\n" not in brief(np.zeros((3, 3)))
