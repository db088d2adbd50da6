"""A small server with the protocol of S3, and with the flaws of other servers: `flawed.py FLAW`.

It keeps its objects in memory, listens on a free port of 127.0.0.1, and prints the port. Without a flaw it
keeps the promises of a store, which shows that a flaw is the reason why a store is refused.

    none        creates are atomic, and the condition holds
    ignores     the condition of a create is ignored, as by old servers and some clouds
    races       a create looks for the name, and writes a moment later
    lists-late  an object is in listings only a second after it was created
    stalls      a create is carried out, and its answer never arrives
    drops       a create is carried out, and the connection ends without an answer
    denies      every request is denied, with an answer that quotes keys
    no-bucket   there is no such bucket
    forbids     objects may be read and listed, and not created
    full        there is no room for an object
    fills       there is room for 5 objects that are created, and then for none
    stalls-segments  a segment object is not stored, and no answer arrives
"""

import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FLAW = sys.argv[1]
FLAWS = ["none", "ignores", "races", "lists-late", "stalls", "drops", "denies", "no-bucket"]
FLAWS += ["forbids", "full", "fills", "stalls-segments"]
# A page of a listing is short, so that clients have to ask for the next one.
PAGE = 100
objects = {}
lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Without it, small answers wait for each other.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def version_string(self):
        return "flawed/" + FLAW

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def fail(self, status, code, more=""):
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code>{more}</Error>"
        self.answer(status, body.encode(), [("Content-Type", "application/xml")])

    def handle_request(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        address = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(address.query, keep_blank_values=True))
        _, bucket, *rest = urllib.parse.unquote(address.path).split("/", 2)
        name = rest[0] if rest else ""
        if bucket == "-":
            with lock:
                self.answer(200, "\n".join(sorted(objects)).encode())
        elif FLAW == "denies":
            more = "<AWSAccessKeyId>QUOTED-KEY</AWSAccessKeyId><StringToSign>QUOTED-TEXT</StringToSign>"
            self.fail(403, "SignatureDoesNotMatch", more)
        elif FLAW == "no-bucket":
            self.fail(404, "NoSuchBucket")
        elif not name:
            self.list(query)
        elif self.command == "PUT":
            self.put(name, body)
        elif self.command == "DELETE":
            with lock:
                objects.pop(name, None)
            self.answer(204)
        else:
            self.get(name)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request

    def put(self, name, body):
        is_conditional = self.headers.get("If-None-Match") == "*" and FLAW != "ignores"
        stored = (body, time.time())
        with lock:
            created = sum("/tail/" in it or it.endswith("LEDGER.json") for it in objects)
        if FLAW == "forbids":
            return self.fail(403, "AccessDenied", "<AWSAccessKeyId>QUOTED-KEY</AWSAccessKeyId>")
        if FLAW == "full" or FLAW == "fills" and is_conditional and created >= 5:
            return self.fail(507, "XMinioStorageFull")
        if FLAW == "stalls-segments" and "/seg/" in name:
            with lock:
                objects["stalled"] = stored
            time.sleep(120)
            self.close_connection = True
            return
        if FLAW == "races":
            is_there = name in objects
            time.sleep(0.01)
            if is_conditional and is_there:
                return self.fail(412, "PreconditionFailed")
            objects[name] = stored
        else:
            with lock:
                if is_conditional and name in objects:
                    return self.fail(412, "PreconditionFailed")
                objects[name] = stored
        if FLAW == "stalls":
            time.sleep(30)
        if FLAW in ("stalls", "drops"):
            self.close_connection = True
            return
        self.answer(200, headers=[("ETag", f'"{len(body)}"')])

    def get(self, name):
        with lock:
            found = objects.get(name)
        if found is None:
            return self.fail(404, "NoSuchKey")
        body, at = found
        headers = [("ETag", f'"{len(body)}"'), ("Last-Modified", formatdate(at, usegmt=True))]
        span = self.headers.get("Range")
        if span is None:
            return self.answer(200, body, headers)
        first, last = span.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last or len(body)), len(body) - 1)
        if first >= len(body):
            return self.fail(416, "InvalidRange")
        headers.append(("Content-Range", f"bytes {first}-{last}/{len(body)}"))
        self.answer(206, body[first : last + 1], headers)

    def list(self, query):
        prefix = query.get("prefix", "")
        after = query.get("continuation-token") or query.get("start-after") or ""
        newest = time.time() - (1 if FLAW == "lists-late" else 0)
        with lock:
            names = sorted(it for it, (_, at) in objects.items() if at <= newest)
        names = [it for it in names if it.startswith(prefix) and it > after]
        # The names of a ledger's folder have no folders in them.
        names = [it for it in names if "/" not in it[len(prefix) :]]
        page, more = names[:PAGE], len(names) > PAGE
        rows = ""
        for name in page:
            body, at = objects[name]
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
            rows += f"<Contents><Key>{name}</Key><LastModified>{stamp}</LastModified>"
            rows += f'<ETag>"{len(body)}"</ETag><Size>{len(body)}</Size></Contents>'
        token = f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else ""
        text = (
            "<?xml version='1.0'?><ListBucketResult><IsTruncated>"
            + str(more).lower()
            + f"</IsTruncated><KeyCount>{len(page)}</KeyCount>{token}{rows}</ListBucketResult>"
        )
        self.answer(200, text.encode(), [("Content-Type", "application/xml")])


if FLAW not in FLAWS:
    sys.exit(f"unknown flaw: {FLAW}; one of {', '.join(FLAWS)}")
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
