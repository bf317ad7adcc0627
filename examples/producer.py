"""Asks for one parcel with greenstalk.

pip install greenstalk
python examples/producer.py usps 9405903699300184125060 order-1042
"""

from __future__ import annotations

import json
import os
import sys

import greenstalk

host, _, port = os.environ.get("BEANSTALKD", "127.0.0.1:11300").rpartition(":")
slug, number, operation = sys.argv[1:]

job = {
    "type": "requests_flow",
    "payload": {"slug": slug, "number": number, "id": operation},
}
with greenstalk.Client((host, int(port)), use="requests_flow") as client:
    # The same priority from every producer: the smaller number always wins, and defaults differ.
    job_id = client.put(json.dumps(job), priority=65536, ttr=60)
print(f"put job {job_id}; now: python examples/read_result.py {slug} {number} {operation}")
