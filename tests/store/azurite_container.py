"""Creates a container in Azurite with its published account: `azurite_container.py PORT NAME`."""

import base64
import hashlib
import hmac
import sys
import urllib.error
import urllib.request
from email.utils import formatdate

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-12-02"

port, name = sys.argv[1:]
date = formatdate(usegmt=True)
signed = f"x-ms-date:{date}\nx-ms-version:{VERSION}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
text = "PUT" + "\n" * 12 + signed
digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
request = urllib.request.Request(
    f"http://127.0.0.1:{port}/{ACCOUNT}/{name}?restype=container",
    method="PUT",
    headers={
        "x-ms-date": date,
        "x-ms-version": VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
    },
)
try:
    urllib.request.urlopen(request, timeout=10)
except urllib.error.HTTPError as error:
    # It exists already.
    if error.code != 409:
        raise
