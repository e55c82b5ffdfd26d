import os
import stat

import pytest

from tokenpath.files import check_writable, replacing, write_atomic
from tokenpath.hw.arch.errors import InputError


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "run.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["run.json"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_goes_wrong_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "run.npz"
    path.write_bytes(b"old")
    with pytest.raises(error), replacing(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".npz"
        temporary.write_bytes(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_new_file_has_the_usual_mode_and_an_old_one_keeps_its_own(tmp_path):
    usual, path = tmp_path / "usual", tmp_path / "run"
    usual.touch()
    write_atomic(path, b"one")
    assert path.stat().st_mode == usual.stat().st_mode
    path.chmod(0o600)
    write_atomic(path, b"two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "run"
    link.symlink_to(target)
    write_atomic(link, b"one")
    assert link.is_symlink()
    assert target.read_bytes() == b"one"


def test_a_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(pipe, b"one")
    assert os.read(reader, 10) == b"one"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_path_that_cannot_become_a_file_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match="it is a folder; give a file name"):
        check_writable(tmp_path)
    with pytest.raises(InputError, match=r"no folder .*/missing; make it first"):
        write_atomic(tmp_path / "missing" / "run", b"")


def test_a_failing_write_is_an_input_error(tmp_path):
    path = tmp_path / "run"
    full = OSError(28, "No space left on device")
    with pytest.raises(InputError, match="No space left on device; choose"), replacing(path):
        raise full
    assert os.listdir(tmp_path) == []


def test_a_folder_without_write_permission_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(InputError, match="permission denied; choose another place"):
        check_writable(tmp_path / "run")
