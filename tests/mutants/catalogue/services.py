"""Services: two who make one at once pass no limit, and a change holds in every process."""

from __future__ import annotations

from mutants.mutant import Mutant

AT_ONCE = "deliveries/test_services_at_once.py::"
SERVICES = "deliveries/test_services.py::"
KNOWN = "deliveries/test_subscriptions.py::"
CHANGED = "limits/test_changed_rules.py::"
EPOCH = "limits/test_epoch.py::"

MUTANTS = (
    Mutant(
        name="of two who make a service of one name at once both do",
        breaks="I8",
        where="service/worker/results/database.py",
        old='Index(("account", "name"), LIVE, unique=True)',
        new='Index(("account", "name"), LIVE)',
        tests=(AT_ONCE + "test_of_two_who_make_a_name_at_once_one_does",),
    ),
    Mutant(
        name="who make services at once pass what an account may have",
        breaks="I8",
        where="service/worker/results/database.py",
        old='Index(("account", "slot"), LIVE, unique=True)',
        new='Index(("account", "slot"), LIVE)',
        tests=(AT_ONCE + "test_who_make_services_at_once_never_pass_what_an_account_may_have",),
    ),
    Mutant(
        name="a service is made before running processes know it",
        breaks="I1",
        where="service/operator/services.py",
        old="return await heard_by_all(redis, revision) if waits else ()",
        new="return ()",
        tests=(AT_ONCE + "test_a_service_is_made_once_every_live_process_knows_it",),
    ),
    Mutant(
        name="a process that does not say what it knows is taken for one that knows all",
        breaks="I1",
        where="limits/admin/running.py",
        old="NEVER = -1",
        new="NEVER = 1 << 60",
        tests=(CHANGED + "test_a_worker_that_does_not_say_by_which_rules_it_goes_is_late",),
    ),
    Mutant(
        name="who has nothing to do never hears of a service",
        breaks="I1",
        where="limits/limiter.py",
        old="if self._epoch.revision > self._book.revision:",
        new="if self._epoch.revision < self._book.revision:",
        tests=(
            CHANGED + "test_who_has_nothing_to_do_learns_newer_rules_by_its_sweep_and_tells_so",
        ),
    ),
    Mutant(
        name="no change is marked until services are known",
        breaks="I1",
        where="service/worker/deliveries/subscriptions.py",
        old="accounts is None or account in accounts",
        new="accounts is not None and account in accounts",
        tests=(KNOWN + "test_every_account_is_heard_until_services_are_known",),
    ),
    Mutant(
        name="after a lost Redis a delivery starts beside a call of before",
        breaks="I2",
        where="limits/epoch.py",
        old="max(self._quiet_seconds, self.outlast())",
        new="max(self._quiet_seconds, 0.0)",
        tests=(EPOCH + "test_after_a_loss_nobody_starts_for_as_long_as_any_call_may_take",),
    ),
    Mutant(
        name="a secret that is made while another one is made is lost",
        breaks="I8",
        where="service/operator/services.py",
        old='{"_id": service.id, "secrets": _as_kept(service)}',
        new='{"_id": service.id}',
        tests=(AT_ONCE + "test_a_secret_that_somebody_makes_meanwhile_signs_too",),
    ),
    Mutant(
        name="a deleted service keeps its secrets",
        breaks="I8",
        where="service/operator/services.py",
        old='            "secrets": [],\n',
        new="",
        tests=(SERVICES + "test_a_deleted_service_leaves_neither_secrets_nor_open_deliveries",),
    ),
)
