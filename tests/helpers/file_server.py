"""A file server on this machine that can be told to misbehave."""

import hashlib
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer:
    """Serves `files` at `base`; each request is in `log` with its range headers."""

    def __init__(self, files=None):
        self.files = dict(files or {})
        self.log = []
        self.breaks = defaultdict(list)  # path: bytes after which to hang up, request by request
        self.answers = defaultdict(list)  # path: status codes to give first
        self.headers = {}  # of every answer, in place of our own
        self.ranges = True
        self.etags = {}

    def __enter__(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.answer(self)

            def log_message(self, *_):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def asked(self, name):
        return [entry for path, *entry in self.log if path == f"/{name}"]

    def answer(self, request):
        name = request.path.lstrip("/").partition("?")[0]
        wanted, only_if = request.headers.get("Range"), request.headers.get("If-Range")
        self.log.append((request.path, wanted, only_if))
        if self.answers[name]:
            status, headers = self.answers[name].pop(0)
            self._head(request, status, headers)
            return
        if name not in self.files:
            self._head(request, 404, {})
            return
        content = self.files[name]
        etag = self.etags.get(name, f'"{hashlib.md5(content).hexdigest()}"')
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if not self.ranges or only_if != etag:
            start = 0
        headers = {"ETag": etag, "Content-Type": "application/x-gzip"} | self.headers
        if start and start >= len(content):
            self._head(request, 416, {"Content-Range": f"bytes */{len(content)}"})
            return
        headers["Content-Length"] = str(len(content) - start)
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        end = self.breaks[name].pop(0) if self.breaks[name] else len(content)
        self._head(request, 206 if start else 200, headers)
        request.wfile.write(content[start:end])

    @staticmethod
    def _head(request, status, headers):
        request.send_response(status)
        for key, value in headers.items():
            if value is not None:
                request.send_header(key, value)
        if "Content-Length" not in headers:
            request.send_header("Content-Length", "0")
        request.end_headers()
