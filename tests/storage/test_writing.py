"""Files are written beside their target and renamed; what a killed process leaves is removed."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import skcalib
from skcalib._storage import writing
from skcalib._storage.writing import write_file

pytest.importorskip("fcntl", reason="Windows has neither modes nor these limits")
# Write a file in a process without the package, which ends or waits where the content is complete.
PROGRAM = """
import os, runpy, signal, sys
source, path, how = sys.argv[1:]
def killed(number):
    os.kill(os.getpid(), signal.SIGKILL)
def waiting(number):
    print("written", flush=True)
    sys.stdin.readline()
os.fsync = {"killed": killed, "waiting": waiting}[how]
runpy.run_path(source)["write_file"](path, b"new")
"""


def process(how):
    command = [sys.executable, "-c", PROGRAM, writing.__file__, "f.json", how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def calibrator():
    return skcalib.IdentityCalibrator().fit([0.2, 0.9], ["no", "yes"])


def parts():
    return [path.name for path in Path().iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("there", [True, False])
def test_a_full_disk_leaves_the_old_file_and_is_said_of_the_one_that_was_to_be_written(
    small_disk, calibrator, there
):
    if there:
        Path("f.json").write_text("old")
    with pytest.raises(OSError, match="File too large: 'f.json'"):
        skcalib.save_json(calibrator, "f.json")
    assert [path.read_text() for path in Path().iterdir()] == ["old"] * there


def test_a_link_stays_and_its_target_is_replaced(calibrator):
    Path("there").mkdir()
    Path("there/f.json").write_text("old")
    for link, target in (("a.json", "there/f.json"), ("b.json", "a.json"), ("c.json", "new.json")):
        Path(link).symlink_to(target)
        skcalib.save_json(calibrator, link)
        assert os.readlink(link) == target
        assert skcalib.load_json(target).classes_.tolist() == ["no", "yes"]


def test_the_mode_stays_and_a_new_file_has_that_of_the_umask(calibrator):
    Path("old.json").touch()
    Path("old.json").chmod(0o600)
    before = os.umask(0o027)
    try:
        for name, mode in (("old.json", 0o600), ("new.json", 0o640)):
            skcalib.save_json(calibrator, name)
            assert stat.S_IMODE(os.stat(name).st_mode) == mode
    finally:
        os.umask(before)


def test_the_content_of_a_private_file_is_private_from_its_first_byte(monkeypatch):
    """Also beside the file, where it is written."""
    Path("f.json").touch()
    Path("f.json").chmod(0o600)
    modes = []
    monkeypatch.setattr(os, "fsync", lambda n: modes.append(stat.S_IMODE(os.fstat(n).st_mode)))
    write_file("f.json", b"new")
    assert modes == [0o600]


def test_what_a_killed_process_left_is_removed_by_the_next_write():
    Path("f.json").write_text("old")
    with process("killed") as killed:
        assert killed.wait() == -signal.SIGKILL
    (left,) = parts()
    others = ["g.json." + left.removeprefix("f.json."), "f.json.old.part"]
    for other in others:
        Path(other).touch()
    assert Path("f.json").read_text() == "old"
    write_file("f.json", b"new")
    assert sorted(parts()) == sorted(others)
    assert Path("f.json").read_text() == "new"


def test_what_a_live_process_writes_stays():
    with process("waiting") as other:
        assert other.stdout.readline() == "written\n"
        write_file("f.json", b"mine")
        assert len(parts()) == 1
        other.communicate("\n")
    assert other.returncode == 0
    assert (Path("f.json").read_text(), parts()) == ("new", [])


def test_a_pipe_is_written_to_and_not_replaced():
    os.mkfifo("pipe.json")
    reader = os.open("pipe.json", os.O_RDONLY | os.O_NONBLOCK)
    write_file("pipe.json", b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO(os.stat("pipe.json").st_mode)


def test_without_locks_a_file_is_written_and_what_is_left_is_removed(monkeypatch):
    """As on Windows, which refuses to remove a file that is open."""
    monkeypatch.setattr(writing, "fcntl", None)
    Path(f"f.json.{'0' * 16}.part").touch()
    write_file("f.json", b"new")
    assert [path.read_text() for path in Path().iterdir()] == ["new"]
