"""What no schema says of the deployment's files: that they fit each other, the programs and the documents.

Scripts/check-deploy calls it: check_files.py CHECKOUT DAYBOOK PROMTOOL WORK
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

root, daybook, promtool, work = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
PROGRAMS = {"ingest-service", "aggregator-worker", "wake-worker", "daybook"}
catalogue = json.loads(subprocess.run([daybook, "config", "--format", "json"], capture_output=True, check=True).stdout)
BUILT = {program for setting in catalogue for program in setting["programs"]}
mistakes, unchecked = [], []


def expect(holds, what):
    if not holds:
        mistakes.append(what)


def load(path):
    return yaml.safe_load((root / path).read_text())


def check_command(where, words):
    """What the operator's tool is asked to do, it knows."""
    if words[0] == "daybook" and len(words) > 1:
        help = subprocess.run([daybook, words[1], "--help"], capture_output=True, text=True)
        if help.returncode != 0:
            unchecked.append(f"`{' '.join(words)}` in {where}")
        for option in words[2:]:
            known = help.returncode != 0 or not option.startswith("--") or f"  {option}" in help.stdout
            expect(known, f"{where}: daybook {words[1]} takes no {option}")


def check_settings(where, program, environment, secrets):
    """The program itself reads the settings; paths of secrets lead to files that `secrets` names by folder."""
    real = {}
    for key, value in environment.items():
        for folder, stand_in in secrets.items():
            if value.startswith(folder + "/"):
                path = Path(stand_in) / value[len(folder) + 1 :]
                expect(path.is_file(), f"{where}: {key} names {value}, which nobody makes")
                value = str(path)
        real[key] = value
    if program not in BUILT:
        unchecked.append(f"settings of {program} in {where}")
        return
    if program == "daybook":
        expect(all(key.startswith("DAYBOOK_") for key in real), f"{where}: settings of something else")
    check = subprocess.run(
        [daybook, "config", "--check", program], env={"PATH": os.environ["PATH"], **real}, capture_output=True, text=True
    )
    expect(check.returncode == 0, f"{where}: {program} refuses its settings:\n{check.stdout}{check.stderr}")


def interpolated(text, values):
    """As compose does for the forms that are used here."""

    def value(match):
        name, operator, rest = match.group(1), match.group(2), match.group(3)
        found = values.get(name, "")
        if found or not operator:
            return found
        if operator == ":-":
            return rest
        mistakes.append(f"compose: {name} is not set: {rest}")
        return ""

    if isinstance(text, dict):
        return {key: interpolated(inner, values) for key, inner in text.items()}
    if isinstance(text, list):
        return [interpolated(inner, values) for inner in text]
    return re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", value, text) if isinstance(text, str) else text


def env_file(path, uncommented=()):
    values = {}
    for line in path.read_text().splitlines():
        line = line.lstrip("# ") if line.lstrip("# ").split("=")[0] in uncommented and line.startswith("#") else line
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            values[key] = value
    return values


def check_compose():
    # A copy, so that `prepare` makes nothing in the checkout.
    copy = work / "compose"
    apple = ("DAYBOOK_APNS_KEY_ID", "DAYBOOK_APNS_TEAM_ID", "DAYBOOK_APNS_TOPIC")
    first = env_file(copy / ".env", apple)
    three = env_file(
        copy / ".env",
        (*apple, "COMPOSE_PROFILES", "DAYBOOK_KAFKA_BROKERS", "DAYBOOK_KAFKA_REPLICATION", "DAYBOOK_ALLOW_WEAK_TOPICS"),
    )
    expect(first["COMPOSE_PROFILES"] == "one" and three["COMPOSE_PROFILES"] == "three", "compose: two profiles")
    for values in (first, three):
        file = interpolated(load("compose/compose.yaml"), values)
        services = file["services"]
        active = {
            name
            for name, service in services.items()
            if not service.get("profiles") or values["COMPOSE_PROFILES"] in service["profiles"]
        }
        for broker in values["DAYBOOK_KAFKA_BROKERS"].split(","):
            expect(broker.split(":")[0] in active, f"compose: {broker} is no service of {values['COMPOSE_PROFILES']}")
        for name, secret in file["secrets"].items():
            expect((copy / secret["file"]).is_file(), f"compose: prepare does not make {secret['file']}")
        for name, service in services.items():
            for secret in service.get("secrets", []):
                expect(secret in file["secrets"], f"compose: {name} names the unknown secret {secret}")
            for mount in service.get("volumes", []):
                source = mount.split(":")[0]
                if source.startswith("."):
                    expect((root / "compose" / source).exists(), f"compose: {name} mounts {source}, which is not there")
                else:
                    expect(source in file["volumes"], f"compose: {name} mounts the unknown volume {source}")
            needed = service.get("depends_on", {})
            for other in needed:
                optional = isinstance(needed, dict) and not needed[other].get("required", True)
                expect(other in active or optional, f"compose: {name} waits for {other}, which is not started")
            program = (service.get("command") or [""])[0]
            if program in PROGRAMS or name == "tool":
                expect(service["read_only"] and service["user"] == "10001:10001", f"compose: {name} may write")
                for secret in re.findall(r"/run/secrets/([\w-]+)", json.dumps(service["environment"])):
                    expect(secret in service["secrets"], f"compose: {name} reads {secret} and is not given it")
                check_command(f"compose: {name}", service.get("command") or ["daybook"])
                check_settings(
                    f"compose: {name}", program or "daybook", service["environment"], {"/run/secrets": copy / "secrets"}
                )


def fake_secrets():
    folder = work / "secrets"
    folder.mkdir()
    for name in ("database-url", "migrations-url", "aggregator-url", "wake-url"):
        (folder / name).write_text("postgres://somebody:secret@postgres.example:5432/daybook?sslmode=verify-full")
    (folder / "apns-key").write_text("-" * 200)
    (folder / "jwt-hs256").write_text("0123456789abcdef0123456789abcdef")
    (folder / "kafka-password").write_text("secret")
    return folder


def check_systemd(secrets):
    for unit in sorted((root / "deploy/systemd").glob("daybook-*.service")):
        text = unit.read_text()
        named = re.search(r"^EnvironmentFile=/etc/daybook/([\w.]+)$", text, re.M).group(1)
        environment = env_file(unit.parent / f"{named}.example")
        credentials = dict(re.findall(r"^LoadCredential=([\w-]+):(\S+)$", text, re.M))
        for key, name in re.findall(r"^Environment=(\w+)=%d/([\w-]+)$", text, re.M):
            expect(name in credentials, f"{unit.name}: {name} is not loaded")
            environment[key] = f"%d/{name}"
        words = re.search(r"^ExecStart=(.+)", text, re.M).group(1).split()
        program = Path(words[0]).name
        check_command(unit.name, [program, *words[1:]])
        expect(program in PROGRAMS, f"{unit.name}: {program} is no program of Daybook")
        check_settings(unit.name, program, environment, {"%d": secrets})


def check_kubernetes(secrets):
    objects = [
        thing
        for path in sorted((root / "deploy/kubernetes").glob("*.yaml"))
        for thing in yaml.safe_load_all(path.read_text())
    ]
    readme = (root / "deploy/kubernetes/README.md").read_text()
    by_kind = {}
    for thing in objects:
        by_kind.setdefault(thing["kind"], {})[thing["metadata"]["name"]] = thing
        expect(
            thing["kind"] == "Namespace" or thing["metadata"].get("namespace") == "daybook",
            f"kubernetes: {thing['kind']} {thing['metadata']['name']} is in no namespace",
        )
    shared = by_kind["ConfigMap"]["daybook"]["data"]
    crons = {name: {"kind": "Job", **cron["spec"]["jobTemplate"]} for name, cron in by_kind["CronJob"].items()}
    pods = {**by_kind["Deployment"], **by_kind["Job"], **crons}
    names = set()
    for name, thing in pods.items():
        template = thing["spec"]["template"]
        labels, spec = template["metadata"]["labels"], template["spec"]
        names.add(labels["app.kubernetes.io/name"])
        if thing["kind"] == "Deployment":
            expect(thing["spec"]["selector"]["matchLabels"].items() <= labels.items(), f"kubernetes: {name} selects none")
        for volume in spec["volumes"]:
            source = volume.get("secret", {}).get("secretName") or volume.get("configMap", {}).get("name")
            expect(f" {source} " in readme, f"kubernetes: README.md does not say how {source} is made")
        (container,) = spec["containers"]
        expect(container["securityContext"]["readOnlyRootFilesystem"], f"kubernetes: {name} may write")
        expect(spec["securityContext"]["runAsNonRoot"], f"kubernetes: {name} may be root")
        environment = dict(shared)
        environment.update({entry["name"]: entry["value"] for entry in container["env"]})
        grace = int(environment.get("DAYBOOK_GRACE_PERIOD_MS", 15000)) / 1000
        expect(spec.get("terminationGracePeriodSeconds", 30) > grace, f"kubernetes: {name} is killed while it ends")
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                expect(container[probe]["httpGet"]["port"] in ports, f"kubernetes: {name} has no port for {probe}")
        expect(thing["kind"] == "Job" or "readinessProbe" in container, f"kubernetes: {name} has no probes")
        check_command(f"kubernetes: {name}", container["command"])
        check_settings(
            f"kubernetes: {name}", container["command"][0], environment, {"/etc/daybook/secrets": secrets}
        )
    for scaler in by_kind["HorizontalPodAutoscaler"].values():
        target = scaler["spec"]["scaleTargetRef"]["name"]
        expect(target in by_kind["Deployment"], f"kubernetes: an autoscaler for {target}, which is not there")
    selections = [
        *(budget["spec"]["selector"]["matchLabels"] for budget in by_kind["PodDisruptionBudget"].values()),
        *(policy["spec"]["podSelector"].get("matchLabels") for policy in by_kind["NetworkPolicy"].values()),
        *(service["spec"]["selector"] for service in by_kind["Service"].values()),
    ]
    for labels in filter(None, selections):
        expect(labels["app.kubernetes.io/name"] in names, f"kubernetes: nothing is labelled {labels}")
    policed = {(p["spec"]["podSelector"].get("matchLabels") or {}).get("app.kubernetes.io/name") for p in
               by_kind["NetworkPolicy"].values()}
    expect(names <= policed, f"kubernetes: no network policy for {names - policed}")


def expressions():
    """Every expression of the rules and the dashboards, with the place where it stands."""
    for path in sorted((root / "deploy/prometheus").glob("*rules.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield f"{path.name}: {rule.get('alert') or rule['record']}", rule["expr"]
    for path in sorted((root / "deploy/grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"]


def check_image():
    """Every program that the image is to have is a product of the package."""
    (line,) = re.findall(r"for program in ([\w -]+);", (root / "Dockerfile").read_text())
    products = set(re.findall(r'\.executable\(name: "([\w-]+)"', (root / "Package.swift").read_text()))
    for program in line.split():
        if program in BUILT:
            expect(program in products, f"Dockerfile: {program} is no product of Package.swift")
        else:
            unchecked.append(f"{program} in the Dockerfile")
    expect(BUILT <= set(line.split()), f"Dockerfile: it builds no {BUILT - set(line.split())}")


def check_dashboards():
    identities = set()
    for path in sorted((root / "deploy/grafana").glob("*.json")):
        board = json.loads(path.read_text())
        expect(board["uid"] == path.stem, f"{path.name}: its uid is not its file's name")
        numbers = [panel["id"] for panel in board["panels"]]
        expect(len(numbers) == len(set(numbers)), f"{path.name}: two panels of one id")
        identities.add(board["uid"])
        for panel in board["panels"]:
            place = panel["gridPos"]
            expect(place["x"] + place["w"] <= 24, f"{path.name}: {panel['title']} is too wide")
            expect(panel["type"] == "row" or panel["targets"], f"{path.name}: {panel['title']} shows nothing")
    # promtool knows no lone expressions, so each becomes a rule.
    rules = [{"record": f"panel:{number}", "expr": text} for number, (_, text) in enumerate(expressions())]
    file = work / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    check = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True)
    expect(check.returncode == 0, f"an expression is not one:\n{check.stdout}{check.stderr}")
    return len(identities), len(rules)


def check_runbook():
    text = (root / "docs/RUNBOOK.md").read_text()
    headings = {heading.lower() for heading in re.findall(r"^### (Daybook\w+)$", text, re.M)}
    alerts, tested = {}, set()
    for path in sorted((root / "deploy/prometheus").glob("*rules.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                alerts[rule["alert"]] = rule
        tests = (path.parent / path.name.replace("rules.yml", "rules.test.yml")).read_text()
        tested |= set(re.findall(r'alertname="(\w+)",alertstate="firing",severity=', tests))
    for name, rule in alerts.items():
        link = rule["annotations"]["runbook_url"]
        expect(link == f"docs/RUNBOOK.md#{name.lower()}", f"{name} links to {link}")
        expect(name.lower() in headings, f"docs/RUNBOOK.md has no paragraph about {name}")
        expect(name in tested, f"no test shows that {name} fires")
    for heading in headings - {name.lower() for name in alerts}:
        expect(False, f"docs/RUNBOOK.md writes of {heading}, which is no alert")
    return len(alerts)


if __name__ == "__main__":
    check_compose()
    secrets = fake_secrets()
    check_systemd(secrets)
    check_kubernetes(secrets)
    check_image()
    boards, count = check_dashboards()
    alerts = check_runbook()
    (work / "expressions.json").write_text(json.dumps(list(expressions())))
    if mistakes:
        sys.exit("\n".join(mistakes))
    for what in dict.fromkeys(unchecked):
        print(f"> NOT CHECKED, since this build does not have it: {what}")
    print(f"> {boards} dashboards, {count} expressions, {alerts} alerts with their paragraph and a test that each fires")
