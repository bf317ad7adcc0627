"""The spool: what it confirmed is there after every kind of end, and nothing else is confirmed."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from service.operator.spool import Spool, unfit
from tracking.errors import SpoolDown

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MIB = 1


@pytest.fixture
def path(disk: Path) -> Path:
    return disk / "spool.sqlite"


@pytest.fixture
def spool(path: Path) -> Iterator[Spool]:
    with closing(Spool(path, MIB)) as made:
        yield made


def bodies(spool: Spool) -> list[bytes]:
    return [each.body for each in spool.oldest(1_000_000)]


def python(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_was_added_is_read_oldest_first_by_every_door(spool: Spool, path: Path) -> None:
    spool.add([b"1", b"2"])
    with closing(Spool(path, MIB)) as other:
        other.add([b"3"])
        spool.add([b"4"])

        assert bodies(other) == bodies(spool) == [b"1", b"2", b"3", b"4"]
        assert other.count() == 4


def test_it_is_read_in_pieces_and_what_is_put_is_deleted(spool: Spool) -> None:
    spool.add([b"1", b"2", b"3"])
    first, second = spool.oldest(2)
    assert [each.body for each in spool.oldest(2, after=second.id)] == [b"3"]

    spool.delete([first.id])
    spool.add([b"4"])

    assert bodies(spool) == [b"2", b"3", b"4"]


def test_only_its_owner_may_read_it(spool: Spool, path: Path) -> None:
    spool.add([b"1"])

    modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}

    assert modes == dict.fromkeys(modes, 0o600)


def test_what_was_confirmed_is_there_after_a_kill(path: Path) -> None:
    code = """
import sys, itertools
from pathlib import Path
from service.operator.spool import Spool
spool = Spool(Path(sys.argv[1]), 64)
for number in itertools.count():
    spool.add([b"%d" % number] * 3)
    print(number, flush=True)
"""
    with python("-c", code, path) as door:
        assert door.stdout is not None
        for _ in range(20):
            last = int(door.stdout.readline())
        door.send_signal(signal.SIGKILL)
        last = int((door.stdout.read().split() or [last])[-1])

    with closing(Spool(path, MIB)) as spool:
        found = bodies(spool)

    # The batch that nobody confirmed may be there too, as a whole.
    assert found in [
        [b"%d" % each for each in range(end) for _ in "123"] for end in (last + 1, last + 2)
    ]


def test_a_torn_log_holds_whole_batches_only(spool: Spool, path: Path, disk: Path) -> None:
    for batch in range(4):
        spool.add([b"%d" % batch * 900] * 5)
    log = Path(f"{path}-wal").read_bytes()
    seen = set()
    for length in [*range(0, len(log), 4001), len(log)]:
        torn = disk / f"torn-{length}"
        shutil.copy(path, torn)
        Path(f"{torn}-wal").write_bytes(log[:length])

        with closing(Spool(torn, MIB)) as after:
            found = bodies(after)
            after.add([b"more"])

        whole, rest = divmod(len(found), 5)
        assert rest == 0
        assert found == [b"%d" % batch * 900 for batch in range(whole) for _ in range(5)]
        seen.add(whole)
    assert seen == set(range(5))


@pytest.mark.parametrize("where", ["head", "middle", "end"])
def test_a_damaged_file_is_named_and_nothing_is_added_to_it(path: Path, where: str) -> None:
    with closing(Spool(path, MIB)) as before:
        before.add([b"x" * 1000] * 100)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if where == "end":
            file.truncate(size // 2)
        else:
            file.seek(0 if where == "head" else size // 2)
            file.write(b"\xa5" * 4096)
    damaged = path.read_bytes()

    with closing(Spool(path, MIB)) as spool:
        for _ in range(2):
            with pytest.raises(SpoolDown, match=r"damaged.*recover FILE"):
                spool.add([b"1"])
        with pytest.raises(SpoolDown, match="damaged"):
            spool.oldest(1)

    assert path.read_bytes() == damaged


def test_a_full_spool_keeps_what_it_has_and_takes_more_once_there_is_room(spool: Spool) -> None:
    spool.add([b"x" * 1000] * 500)

    with pytest.raises(SpoolDown, match=r"is full.*spool_mib"):
        spool.add([b"y" * 1000] * 600)
    with pytest.raises(SpoolDown, match="is full"):
        spool.add([b"y" * 1000] * 600)

    assert bodies(spool) == [b"x" * 1000] * 500
    spool.delete([each.id for each in spool.oldest(500)])
    spool.add([b"y" * 1000] * 600)
    assert spool.count() == 600


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """As a full disk: Python ignores the signal, so that a write is told EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_without_room_confirms_nothing_and_is_used_again_afterwards(spool: Spool) -> None:
    spool.add([b"1"])
    with files_end_at(30_000), pytest.raises(SpoolDown):
        spool.add([b"2" * 1000] * 100)
    kept = bodies(spool)

    spool.add([b"3"])

    assert bodies(spool) == [*kept, b"3"]


MOUNTED = 'mount -t tmpfs -o size=14m none "$0" && exec "$@"'


@pytest.fixture
def small(disk: Path) -> list[str]:
    """What runs a command where `disk` has 14 MB: in a name space of its own, for users too."""
    for how in (["--mount"], ["--user", "--map-root-user", "--mount"]):
        command = ["unshare", *how, "sh", "-c", MOUNTED, str(disk)]
        with contextlib.suppress(OSError):
            if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
                return command
    pytest.skip("this user may mount nothing here, also not in a name space of its own")


@pytest.mark.parametrize("batch", [1, 5_000])
def test_a_spool_that_filled_its_disk_empties_and_fills_again(
    small: list[str], disk: Path, batch: int
) -> None:
    command = [*small, sys.executable, HERE / "full_disk.py", disk, f"{batch}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["held"] == told["deleted"] > 10_000
    assert told["again"] > told["held"] * 0.9
    assert all("is full" in each for each in told["refusals"]), told


def test_a_sync_that_fails_confirms_nothing(path: Path) -> None:
    with python(HERE / "failing_syncs.py", path) as failing:
        told, _ = failing.communicate(timeout=30)

    assert failing.returncode == 0
    assert [line.split(" (")[0] for line in told.splitlines()] == [
        f"the spool {path} cannot be used"
    ] * 2
    with closing(Spool(path, MIB)) as after:
        assert bodies(after)[0] == b"before"


def test_one_door_at_a_time_empties_it(spool: Spool, path: Path) -> None:
    with closing(Spool(path, MIB)) as other:
        with spool.alone() as first, other.alone() as second:
            assert (first, second) == (True, False)
        with other.alone() as again:
            assert again


def test_a_door_that_was_killed_holds_nobody_up(spool: Spool, path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from service.operator.spool import Spool
with Spool(Path(sys.argv[1]), 64).alone() as alone:
    print(alone, flush=True)
    time.sleep(60)
"""
    with python("-c", code, path) as door:
        assert door.stdout is not None
        assert door.stdout.readline() == "True\n"
        with spool.alone() as alone:
            assert not alone
        door.kill()

    with spool.alone() as alone:
        assert alone


def test_a_path_that_forgets_is_refused(disk: Path) -> None:
    assert unfit(disk / "spool.sqlite") == ""
    assert "tmpfs" in unfit(Path("/dev/shm/spool.sqlite"))  # noqa: S108 - it is refused
    assert "make it" in unfit(disk / "nowhere" / "spool.sqlite")


@pytest.mark.parametrize("kept_from", ["", "spool.sqlite", "spool.sqlite-wal", "spool.sqlite.lock"])
def test_a_path_that_its_user_may_not_write_is_refused(disk: Path, kept_from: str) -> None:
    """Root may write everything, so somebody else looks where the tests run as root."""
    code = """
import os, sys
from pathlib import Path
from service.operator.spool import unfit
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
print(unfit(Path(sys.argv[1])))
"""
    folder = disk / "spool"
    folder.mkdir()
    disk.chmod(0o755)
    folder.chmod(0o777)
    barred = folder / kept_from
    if kept_from:
        barred.touch()
    barred.chmod(0o555)
    with python("-c", code, folder / "spool.sqlite") as looking:
        assert looking.stdout is not None
        said = looking.stdout.read()

    assert f"may not write {barred}: give it that right (chown)" in said
    folder.chmod(0o777)


def test_a_path_on_another_machine_is_refused(disk: Path) -> None:
    number = disk.stat().st_dev
    mounts = disk / "mountinfo"
    mounts.write_text(
        f"36 35 {os.major(number)}:{os.minor(number)} / /mnt rw shared:1 - nfs4 server:/x rw\n"
    )

    assert "is on nfs4" in unfit(disk / "spool.sqlite", mounts)


def test_a_path_that_may_not_be_written_is_told(disk: Path) -> None:
    (disk / "spool.sqlite").mkdir()

    with (
        closing(Spool(disk / "spool.sqlite", MIB)) as spool,
        pytest.raises(SpoolDown, match="opened"),
    ):
        spool.count()


def break_off(spool: Spool) -> None:
    with spool.alone() as first, spool.alone() as second:
        assert (first, second) == (True, False)
        raise BlockingIOError


def test_an_error_of_who_empties_the_spool_is_not_taken_for_a_lock(spool: Spool) -> None:
    with pytest.raises(BlockingIOError):
        break_off(spool)
