"""Checks a signed proof; needs cryptography: verify_proof.py proof.json proof.key.

curl https://track.example.com/proof.json > proof.json; the key once, from /proof.key.
"""

import base64
import json
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

found = json.loads(Path(sys.argv[1]).read_text())
signed = json.dumps(found["proof"], sort_keys=True, separators=(",", ":")).encode()
try:
    load_pem_public_key(Path(sys.argv[2]).read_bytes()).verify(
        base64.b64decode(found["signature"]), signed
    )
except InvalidSignature:
    sys.exit("the signature is not right: somebody changed the figures, or the key is another")
print(found["proof"]["at"], "violations:", found["proof"]["calls"]["violations"])
