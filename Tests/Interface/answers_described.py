"""Holds that every route of the description was answered with success at least once: every_route_answered.py URL URL.

The first URL is the description's, the second that of the service's metrics.
"""

import json
import re
import sys
import urllib.request


def read(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


routes = set(json.loads(read(sys.argv[1]))["paths"])
answered = re.findall(
    r'^daybook_ingest_requests_total\{route="([^"]*)",status="2\d\d"\} [1-9]', read(sys.argv[2]), re.MULTILINE
)
missing = sorted(routes - set(answered))
for route in missing:
    print(f"error: {route} never answered with success: it was not really tried", file=sys.stderr)
print(f"{len(routes) - len(missing)} of {len(routes)} routes answered with success")
sys.exit(1 if missing else 0)
