"""Whether the running services show every metric, and every label, that the rules and the dashboards name.

Scripts/check-deploy calls it: check_metrics.py SOURCES EXPRESSIONS PART=FILE… (what each part's /metrics answered)

A family with labels is shown once it has a sample. The wake worker of a stack that wakes nobody has none of some: there
the catalogue in the sources is taken at its word, and that is said.
"""

import json
import re
import sys
from pathlib import Path

# Prometheus and Kubernetes add these, or make them.
OWN = {"up"}
ADDED = {"job", "instance", "le"}
NAME = re.compile(r"\b(?:daybook|process)_[a-z0-9_]+")


def families(text):
    """Names that a query may use, with the labels that their samples have."""
    labels, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            kinds[name] = kind
        elif line and not line.startswith("#"):
            name, _, rest = line.partition("{") if "{" in line else (line.split()[0], "", "")
            found = set(re.findall(r'(\w+)="', rest))
            labels.setdefault(name, set()).update(found)
    return labels


def declared(sources):
    """Metrics of the wake worker's catalogue with their labels."""
    found = {}
    for path in Path(sources).glob("WakeWorker/**/*.swift"):
        for name, rest in re.findall(r'MetricDescription\(\s*"(daybook_wake_\w+)",(.*?)\n    \)', path.read_text(), re.S):
            labels = re.search(r"labels: \[([^\]]*)\]", rest)
            kinds = ["", "_bucket", "_sum", "_count"] if ".histogram" in rest else [""]
            for kind in kinds:
                found[name + kind] = set(re.findall(r'"(\w+)"', labels.group(1))) if labels else set()
    return found


def main():
    expressions = json.loads(Path(sys.argv[2]).read_text())
    shown, parts = {}, set()
    catalogue, trusted = declared(sys.argv[1]), set()
    for argument in sys.argv[3:]:
        part, _, path = argument.partition("=")
        parts.add(part.split("-")[0])
        for name, labels in families(Path(path).read_text()).items():
            shown.setdefault(name, set()).update(labels)
    mistakes, names, unseen = [], set(), set()
    for place, expression in expressions:
        for match in NAME.finditer(expression):
            name = match.group()
            if name.startswith("daybook_wake_") and "wake" not in parts:
                unseen.add(name)
                continue
            names.add(name)
            if name not in shown and name in catalogue:
                trusted.add(name)
                shown[name] = catalogue[name]
            if name not in shown:
                mistakes.append(f"{place}: no service shows {name}")
                continue
            selector = re.match(r"\{([^}]*)\}", expression[match.end() :])
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector.group(1) if selector else ""):
                if label not in shown[name] | ADDED:
                    mistakes.append(f"{place}: {name} has no label {label}")
        # Of all metrics of an expression together: a label belongs to one of them.
        possible = ADDED.union(*(shown.get(name, set()) for name in NAME.findall(expression)))
        wake = "daybook_wake_" in expression and "wake" not in parts
        for group in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expression):
            for label in filter(None, re.split(r"[,\s]+", group)):
                if label not in possible and not wake:
                    mistakes.append(f"{place}: nothing there has the label {label}")
    if unseen:
        print(f"> NOT CHECKED: {len(unseen)} metrics of the wake worker, which the local stack does not start")
    if trusted:
        print(f"> NOT SEEN RUNNING, only declared: {', '.join(sorted(trusted))}")
    if not names:
        mistakes.append("no metric was looked for")
    if mistakes:
        sys.exit("\n".join(sorted(set(mistakes))))
    print(f"> {len(names)} metrics that rules and dashboards name, looked for in {len(sys.argv) - 3} running parts")


main()
