"""Holds that every route of the description was answered with success, and that no answer was outside it:
answers_described.py URL URL.

The first URL is the description's, the second that of the service's metrics, which count answers by route and status.
That every status of the description can come is what the unit tests show.
"""

import json
import re
import sys
import urllib.request


def read(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


document = json.loads(read(sys.argv[1]))
answered = {
    (route, status)
    for route, status in re.findall(
        r'^daybook_ingest_requests_total\{route="([^"]*)",status="(\d+)"\} [1-9]', read(sys.argv[2]), re.MULTILINE
    )
}
# Another method of a path is 405; what has no route, or never became a request, is described for all.
described = {
    (path, status)
    for path, methods in document["paths"].items()
    for operation in methods.values()
    for status in [*operation["responses"], "405"]
}
described |= {("none", name.removeprefix("Problem")) for name in document["components"]["responses"]}

routes = set(document["paths"])
missing = sorted(routes - {route for route, status in answered if status.startswith("2")})
for route in missing:
    print(f"error: {route} never answered with success: it was not really tried", file=sys.stderr)
outside = sorted(answered - described)
for route, status in outside:
    print(f"error: {route} answered {status}, which the description does not have", file=sys.stderr)
print(f"{len(routes) - len(missing)} of {len(routes)} routes answered with success")
print(f"{len(answered) - len(outside)} of {len(answered)} pairs of route and status are described")
sys.exit(1 if missing or outside else 0)
