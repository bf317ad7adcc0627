"""Adds to a spool whose syncs fail from the second batch on: the kernel answers EIO to each.

A filter of system calls says so, for this process and for ever; that is why it is one of its own.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from pathlib import Path

from service.operator.spool import Spool
from tracking.errors import SpoolDown

FSYNC, FDATASYNC = 74, 75  # on x86_64
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, ANSWER = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000 | errno.EIO


class Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jump_true", ctypes.c_ubyte),
        ("jump_false", ctypes.c_ubyte),
        ("value", ctypes.c_uint),
    )


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Instruction)))


def let_syncs_fail() -> None:
    lines = (Instruction * 5)(
        (LOAD, 0, 0, 0),
        (JUMP_IF_EQUAL, 2, 0, FSYNC),
        (JUMP_IF_EQUAL, 1, 0, FDATASYNC),
        (ANSWER, 0, 0, ALLOW),
        (ANSWER, 0, 0, FAIL),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(lines), lines)
    done = libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if not done or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "no filter of system calls")


if __name__ == "__main__":
    spool = Spool(Path(sys.argv[1]), 1)
    spool.add([b"before"])
    let_syncs_fail()
    for body in (b"after", b"later"):
        try:
            spool.add([body])
        except SpoolDown as error:
            print(error)  # noqa: T201 - the test reads it
