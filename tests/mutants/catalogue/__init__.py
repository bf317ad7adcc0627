"""All mutants, by the part of the system that they break."""

from __future__ import annotations

from mutants.catalogue import (
    accounts,
    answers,
    archive,
    asked_over_http,
    brake,
    door,
    duty,
    flow,
    forgetting,
    group_ends,
    groups,
    judges,
    line,
    outside,
    pace,
    plans,
    recovery,
    room,
    rules,
    slots,
    stores,
    tubes,
)
from mutants.mutant import Mutant

CATALOGUE: tuple[Mutant, ...] = (
    *slots.MUTANTS,
    *groups.MUTANTS,
    *group_ends.MUTANTS,
    *brake.MUTANTS,
    *room.MUTANTS,
    *pace.MUTANTS,
    *rules.MUTANTS,
    *line.MUTANTS,
    *accounts.MUTANTS,
    *answers.MUTANTS,
    *recovery.MUTANTS,
    *flow.MUTANTS,
    *duty.MUTANTS,
    *tubes.MUTANTS,
    *door.MUTANTS,
    *asked_over_http.MUTANTS,
    *stores.MUTANTS,
    *plans.MUTANTS,
    *forgetting.MUTANTS,
    *archive.MUTANTS,
    *outside.MUTANTS,
    *judges.MUTANTS,
)
