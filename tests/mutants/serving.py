"""Lets this process see one mutant in place of the code. Nothing on disk is changed.

A module is compiled from the replaced text when it is imported; a script of Redis is replaced where
`limits.script_file` reads it. Which one comes through the environment, so worker processes that a
test starts are mutants too (at_start/sitecustomize.py).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from mutants.mutant import REPOSITORY, Mutant, read

WHICH = "MUTANT"
"""The variable that holds it. Not TRACKER_…: that would be taken for a setting."""


def serve(mutant: Mutant) -> None:
    """From now on, imports of this process get the mutant.

    Its folder is read otherwise, and not its import found: the command line puts a finder before
    all others, for what a verb loads later.
    """
    served = REPOSITORY / "limits" if mutant.is_lua else mutant.file.parent

    def load(name: str, path: str) -> SourceFileLoader:
        if name != mutant.module:
            return SourceFileLoader(name, path)
        return _Loader(name, path, mutant)

    def read_folder(folder: str) -> FileFinder:
        if Path(folder) != served:
            raise ImportError  # it is for the next hook
        return FileFinder(folder, (load, SOURCE_SUFFIXES))  # type: ignore[arg-type] # it calls it

    sys.path_hooks.insert(0, read_folder)


def serve_what_is_asked_for() -> None:
    """Serve the mutant of the environment, if there is one."""
    if written := os.environ.get(WHICH):
        serve(read(written))


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType | None:
        if self._mutant.is_lua:
            return super().get_code(fullname)
        # Never out of or into the cache of compiled modules.
        text = self._mutant.applied(self._mutant.file.read_text("utf-8"))
        return compile(text, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if self._mutant.is_lua:
            mutant, names = self._mutant, vars(module)
            found = names["files"]
            names["files"] = lambda package: _Folder(Path(str(found(package))), mutant)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder of scripts, or one of them, as `limits.script_file` walks and reads it."""

    at: Path
    mutant: Mutant

    def __truediv__(self, name: str) -> _Folder:
        return _Folder(self.at / name, self.mutant)

    def read_text(self) -> str:
        text = self.at.read_text("utf-8")
        return self.mutant.applied(text) if self.at == self.mutant.file else text
