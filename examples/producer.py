"""Asks for one parcel with greenstalk.

pip install greenstalk
python examples/producer.py usps 9405903699300184125060 order-1042
"""

from __future__ import annotations

import json
import os
import sys

try:
    import greenstalk
except ModuleNotFoundError:
    sys.exit("greenstalk is not installed: pip install greenstalk")

if len(sys.argv) != 4:  # noqa: PLR2004 - the program and its three arguments
    sys.exit("usage: producer.py SLUG NUMBER ID")
slug, number, operation = sys.argv[1:]
address = os.environ.get("BEANSTALKD", "127.0.0.1:11300")
host, _, port = address.rpartition(":")
if not (host and port.isdecimal()):
    sys.exit(f"BEANSTALKD is {address!r}: write host:port, like 127.0.0.1:11300")

job = {
    "type": "requests_flow",
    "payload": {"slug": slug, "number": number, "id": operation},
}
try:
    with greenstalk.Client((host, int(port)), use="requests_flow") as client:
        # The same priority from every producer: the smaller number wins, and defaults differ.
        job_id = client.put(json.dumps(job), priority=65536, ttr=60)
except (OSError, greenstalk.Error) as error:
    sys.exit(f"beanstalkd at {address} (BEANSTALKD names another) did not take the job: {error!r}")
print(f"put job {job_id}; now: python examples/read_result.py {slug} {number} {operation}")
