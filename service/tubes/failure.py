"""What a failure of beanstalkd means, and what to do about it, in words."""

from __future__ import annotations

import greenstalk

from service.observe.redact import printable
from tracking.errors import TubesDown
from tracking.network import network_reason

_REFUSALS: dict[type[Exception], tuple[str, str]] = {
    greenstalk.DrainingError: ("takes no new jobs (drain mode)", "Restart it."),
    greenstalk.OutOfMemoryError: ("has no memory or disk left", "Free some."),
    greenstalk.InternalError: ("failed by itself", "Look at its log."),
    greenstalk.JobTooBigError: ("takes no job of this size", "Start it with a larger -z."),
    greenstalk.BuriedError: ("has no memory left for the job", "Free some."),
}


def beanstalkd_down(server: str, error: Exception) -> TubesDown:
    """Word an error of greenstalk or of the network; raise it `from error`."""
    return TubesDown(*told(server, error))


def told(server: str, error: Exception) -> tuple[str, str]:
    """Say what happened and what to do: what a TubesDown is made of."""
    what, fix = _told(error)
    return f"beanstalkd {server} {what}", fix


def _told(error: Exception) -> tuple[str, str]:
    if (refusal := _REFUSALS.get(type(error))) is not None:
        return refusal
    if isinstance(error, greenstalk.UnknownResponseError):
        said = b" ".join([error.status, *error.values]).decode("ascii", "replace")[:60]
        what = f"is not what answers there, but something that says: {printable(said)}"
        return what, "Correct beanstalkd.servers."
    # A plain ConnectionError is greenstalk's or Wire's own: its text tells more than the network.
    reason = str(error) if type(error) is ConnectionError else network_reason(error)
    if not reason:
        # greenstalk on a line that was cut, or that makes no sense.
        return "gave an answer that makes no sense", "Look whether beanstalkd.servers is right."
    return f"does not answer ({reason})", "Start it, or correct beanstalkd.servers."
