"""Creates a bucket in a server on this machine, with signature version 4: `s3_bucket.py PORT NAME`.

The keys are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""

import hashlib
import hmac
import os
import sys
import time
import urllib.error
import urllib.request

port, name = sys.argv[1:]
region, service = "us-east-1", "s3"
host = f"127.0.0.1:{port}"
moment = time.gmtime()
stamp, day = time.strftime("%Y%m%dT%H%M%SZ", moment), time.strftime("%Y%m%d", moment)
empty = hashlib.sha256(b"").hexdigest()
headers = {"host": host, "x-amz-content-sha256": empty, "x-amz-date": stamp}
names = ";".join(sorted(headers))
lines = "".join(f"{it}:{headers[it]}\n" for it in sorted(headers))
canonical = f"PUT\n/{name}\n\n{lines}\n{names}\n{empty}"
scope = f"{day}/{region}/{service}/aws4_request"
text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
for part in (day, region, service, "aws4_request"):
    key = hmac.new(key, part.encode(), hashlib.sha256).digest()
signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
identity = os.environ["AWS_ACCESS_KEY_ID"]
headers["Authorization"] = (
    f"AWS4-HMAC-SHA256 Credential={identity}/{scope}, SignedHeaders={names}, Signature={signature}"
)
request = urllib.request.Request(f"http://{host}/{name}", method="PUT", headers=headers)
try:
    urllib.request.urlopen(request, timeout=10)
except urllib.error.HTTPError as error:
    # It exists already.
    if error.code != 409:
        raise
