"""Stands for a service of ours: answers /readyz, and ends as its environment says.

FAKE_ENDS=3 ends with code 3 the first two times it is ready, saying FAKE_LAST_WORDS; FAKE_DEAF ignores SIGTERM;
FAKE_REASON is why it is never ready.
"""

import http.server
import os
import signal
import threading
from pathlib import Path


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        reason = os.environ.get("FAKE_REASON")
        self.send_response(503 if reason else 200)
        self.end_headers()
        self.wfile.write(f"{reason or 'ok'}\n".encode())
        ends = os.environ.get("FAKE_ENDS")
        times = Path(os.environ["HEADGATE_STATE_DIR"] + ".ended")
        ended = len(times.read_text()) if times.exists() else 0
        if ends and ended < 2:
            times.parent.mkdir(parents=True, exist_ok=True)
            times.write_text("x" * (ended + 1))
            print(os.environ.get("FAKE_LAST_WORDS", "no space left on device"), flush=True)
            threading.Timer(0.1, os._exit, [int(ends)]).start()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    if "FAKE_DEAF" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    address = (os.environ["HEADGATE_HEALTH_HOST"], int(os.environ["HEADGATE_HEALTH_PORT"]))
    http.server.ThreadingHTTPServer.allow_reuse_address = True
    http.server.ThreadingHTTPServer(address, Ready).serve_forever()


if __name__ == "__main__":
    main()
