"""Commands in other surroundings: locales, code pages, no home, one CPU, little memory, closed pipes, moved folders."""

import contextlib
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from benchmarks.faults.compare import differences, run_traces

from faults.conftest import SETTINGS
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform
from lookalike.preprocessing import Preprocessing

NAMES = {"0": "фото", "1": "사진", "2": "<b>&amp;", "3": "=1+1"}
SURROUNDINGS = {
    # names are shown as their bytes, escaped
    "locale C": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "\\udc"),
    "Windows code page": ({"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "HF_HUB_OFFLINE": "1"}, "사진"),
}
"""What is set, and a name that is shown."""


@pytest.fixture
def foreign(photos, tmp_path):
    """The photos, some classes with names that other code pages lack."""
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    for old, new in NAMES.items():
        (folder / old).rename(folder / new)
    return folder


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_no_name_is_too_foreign_for_the_system(name, foreign, tmp_path):
    """With one CPU and no home besides."""
    own, shown = SURROUNDINGS[name]
    variables = {key: value for key, value in os.environ.items() if key != "HOME"}
    variables |= {"LOOKALIKE_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", **own}
    done = subprocess.run(
        [sys.executable, "-m", "lookalike", "train", "photos", "--out", "фото", *SETTINGS],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "фото" / "report.html").read_text(encoding="utf-8")
    assert shown in report
    assert "<b>&amp;<" not in report


@pytest.mark.parametrize("where", ["~/runs", "--out=~/runs"])
def test_a_tilde_is_the_home_folder(where, commands, photos):
    home = commands.folder / "home"
    home.mkdir()
    words = [where] if where.startswith("-") else ["--out", where]
    (code,), printed = commands.start("train", photos, "--quiet", *words, *SETTINGS, HOME=str(home)).wait()
    assert code == 0, printed
    assert (home / "runs" / "report.html").exists()


def close_output():
    """Standard output becomes a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the rest of the process


@pytest.mark.parametrize(
    "words", [["list", "losses"], ["list", "settings"], ["data", "check", "photos", "--write", "clean.csv"]]
)
def test_a_closed_pipe_ends_a_command_in_silence_and_its_files_are_written(words, commands, photos):
    (commands.folder / "photos").symlink_to(photos)
    codes, printed = commands.start(*words, prepare=close_output).wait()
    assert "Traceback" not in printed
    assert "Broken pipe" not in printed
    assert codes in ([0], [1]), printed
    assert (commands.folder / "clean.csv").exists() == ("--write" in words)


@dataclass(frozen=True)
class LimitMemory:
    """As much memory as the process has, and a little more."""

    megabytes: int

    def __call__(self):
        with open("/proc/self/statm", encoding="utf-8") as stream:
            limit = int(stream.read().split()[0]) * resource.getpagesize() + (self.megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_too_little_memory_is_one_line_with_the_settings_to_change(commands, photos):
    big = ["data.image_size=512", "data.resize=512", "batch.size=64", "train.mode=finetune"]
    words = [*SETTINGS, *(word for setting in big for word in ("--set", setting))]
    (code,), printed = commands.start(
        "train", photos, "--quiet", "--out", "run", *words, prepare=LimitMemory(64)
    ).wait()
    assert code == 1
    assert "Traceback" not in printed
    assert "error: out of memory" in printed
    assert "batch.size" in printed
    assert "data.image_size" in printed


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_too_little_memory_is_one_line_of_other_commands_too(commands, photos):
    """Each library has words of its own for it; where one ends the process, that is said as of a killed one."""
    assert commands.run("train", photos, "--quiet", "--out", "run", *SETTINGS)[0] == 0
    said = []
    for words in (
        ["evaluate", "run"],
        ["index", "run", photos, "--out", "made"],
        ["export", "run", "--pt2", "x"],
    ):
        for megabytes in (3, 12):
            _, printed = commands.start(*words, prepare=LimitMemory(megabytes)).wait()
            assert "Traceback" not in printed, (words, printed)
            said += [line for line in printed.splitlines() if "data.image_size" in line]
    assert len(said) >= 3


def decoding_processes(pid):
    """Processes of a DataLoader that a process, or its fork server, has started."""
    found = []
    with contextlib.suppress(OSError):  # of a process that has ended just now
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text(encoding="utf-8").split():
                is_one = Path(f"/proc/{child}/comm").read_text(encoding="utf-8").startswith("pt_data_worker")
                found += [int(child)] if is_one else decoding_processes(child)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("ended", [1, 2])
def test_a_decoding_process_that_the_system_ends_is_one_line_with_the_setting(ended, commands, photos):
    """What a memory limit of a container does."""
    more = ["data.workers=2", "train.epochs=1000", "train.mode=finetune"]
    words = [*SETTINGS, *(word for setting in more for word in ("--set", setting))]
    running = commands.start("train", photos, "--quiet", "--out", "run", *words)
    pid = running.processes[0].pid
    until = time.monotonic() + 120
    while running.processes[0].is_alive() and time.monotonic() < until:
        for worker in decoding_processes(pid)[:ended]:  # one that is about to be replaced is not missed
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.5)
    (code,), printed = running.wait(1)
    assert code == 1
    assert len(printed.splitlines()) == 1
    assert printed.startswith("error: the system has ended a decoding process")
    assert "set data.workers lower or to 0" in printed


def test_images_go_to_decoding_processes_of_any_start_method(squares):
    """Spawned ones and those of a fork server get the dataset pickled."""
    dataset = ImageDataset(squares, EvalTransform(Preprocessing(size=32, mean=(0.5,) * 3, std=(0.5,) * 3)))
    image, label, row = pickle.loads(pickle.dumps(dataset))[3]
    assert np.array_equal(image, dataset[3][0])
    assert (label, row) == (dataset[3][1], 3)


def test_a_moved_run_with_moved_images_goes_on_to_the_same_end(commands, photos):
    folder, words = commands.folder, ["train", "--quiet", *SETTINGS]
    shutil.copytree(photos, folder / "photos")
    assert commands.run(*words, "photos", "--out", "whole")[0] == 0
    running = commands.start(*words, "photos", "--out", "run")
    while not (folder / "run" / "training_state" / "select.json").exists():
        time.sleep(0.01)
    running.send(signal.SIGKILL)
    running.wait()
    (folder / "elsewhere").mkdir()
    for name in ("run", "photos"):
        (folder / name).rename(folder / "elsewhere" / name)
    code, printed = commands.run("train", "elsewhere/photos", "--out", "elsewhere/run", "--resume", "--quiet")
    assert code == 0, printed
    whole, moved = run_traces(folder / "whole"), run_traces(folder / "elsewhere" / "run")
    for traces in (whole, moved):
        del traces["result"]["data"]["source"]
    assert differences(whole, moved) == []


DELETED_WHILE_ENDED = """
import os, signal, time
from lookalike.__main__ import take_interrupts

class Slow:
    def __del__(self):
        os.kill(os.getpid(), signal.{kind})
        time.sleep(0.01)

take_interrupts()
try:
    slow = Slow()
    del slow
    began = time.monotonic()
    time.sleep(30)
except KeyboardInterrupt:
    print("ended" if time.monotonic() - began < 20 else "ended after the wait")
"""


@pytest.mark.parametrize("kind", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_an_interrupt_while_an_object_is_deleted_still_ends_the_command(kind):
    program = DELETED_WHILE_ENDED.format(kind=kind)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # tests may run under nohup
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
