"""The parts of kubectl, and of Kubernetes, that examples/cluster/tasks.k8s.sh uses.

`create` runs an Indexed Job to its end: each index in a process of its own, several at once, and again as often as its limit and
its failure policy allow. A pod sees the directory where `create` is started as its volume. The first `wait` for a Job ends before
the Job does.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

#: A directory with the conditions of each Job.
STATE = pathlib.Path(__file__).with_name("kubernetes")


def flow(text):
    """A value in a line of YAML: [a, "b"], {c: d}, 1 or a text."""
    if text[0] not in '[{"':
        return int(text) if text.isdigit() else text
    tokens = collections.deque(re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{},]|:(?= )|[^\[\]{},:" ]+', text))

    def value():
        token = tokens.popleft()
        if token == "[":
            items = []
            while tokens[0] != "]":
                items.append(value())
                if tokens[0] == ",":
                    tokens.popleft()
            tokens.popleft()
            return items
        if token == "{":
            fields = {}
            while tokens[0] != "}":
                name = tokens.popleft()
                assert tokens.popleft() == ":", text
                fields[name] = value()
                if tokens[0] == ",":
                    tokens.popleft()
            tokens.popleft()
            return fields
        if token.startswith('"'):
            return json.loads(token)
        return int(token) if token.isdigit() else token

    result = value()
    assert not tokens, f"not understood: {text}"
    return result


def block(lines):
    """The list, mapping or value of YAML at the start of `lines`, which are pairs of an indentation and a text."""
    indentation, first = lines[0]
    if first.startswith("- "):
        items = []
        while lines and lines[0][0] == indentation and lines[0][1].startswith("- "):
            lines[0] = (indentation + 2, lines[0][1][2:])
            items.append(block(lines))
        return items
    if not re.match(r"[\w./-]+:( |$)", first):
        lines.popleft()
        return flow(first)
    fields = {}
    while lines and lines[0][0] == indentation:
        name, _, value = lines.popleft()[1].partition(":")
        assert name not in fields, f"{name} occurs twice"
        fields[name] = flow(value.strip()) if value else block(lines)
    return fields


def parse(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    lines = collections.deque((len(line) - len(line.lstrip()), line.strip()) for line in lines)
    document = block(lines)
    assert not lines, f"not understood: {lines[0][1]}"
    return document


class Job:
    def __init__(self, document):
        assert (document["apiVersion"], document["kind"]) == ("batch/v1", "Job")
        self.name = document["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", self.name), self.name
        spec = document["spec"]
        # A limit for each index, and a failure policy, are refused without these.
        assert spec["completionMode"] == "Indexed"
        pod = spec["template"]["spec"]
        assert pod["restartPolicy"] == "Never"
        self.completions, self.parallelism = spec["completions"], spec.get("parallelism", 1)
        self.limit = spec["backoffLimitPerIndex"]
        self.rules = spec["podFailurePolicy"]["rules"]
        (self.container,) = pod["containers"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounts = {mount["mountPath"] for mount in self.container["volumeMounts"] if mount["name"] in volumes}
        assert self.container["workingDir"] in mounts, "the pod does not start in its volume"
        self.failed = threading.Event()

    def exit_code(self, index):
        """Runs a pod. A signal ends its container with 128 and the signal."""
        environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
        code = subprocess.run(self.container["command"], env=environment, stdout=sys.stderr, check=False).returncode
        return code if code >= 0 else 128 - code

    def action(self, code):
        """What the first rule of the failure policy that fits says. Rules for conditions of pods fit none here."""
        for rule in self.rules:
            codes = rule.get("onExitCodes")
            if codes is None or codes.get("containerName", self.container["name"]) != self.container["name"]:
                continue
            if (code in codes["values"]) == {"In": True, "NotIn": False}[codes["operator"]]:
                return rule["action"]
        return "Count"

    def run_index(self, index):
        failures = 0
        while not self.failed.is_set() and failures <= self.limit:
            code = self.exit_code(index)
            if code == 0:
                return True
            action = self.action(code)
            if action == "FailJob":
                self.failed.set()
            elif action == "FailIndex":
                return False
            elif action == "Count":
                failures += 1
        return False

    def run(self):
        """Returns the condition in which the Job ends. A failed index does not stop the others."""
        with concurrent.futures.ThreadPoolExecutor(self.parallelism) as pods:
            succeeded = list(pods.map(self.run_index, range(self.completions)))
        return "Complete" if all(succeeded) else "Failed"


def fail(message):
    sys.exit(f"error: {message}")


def main(arguments):
    STATE.mkdir(exist_ok=True)
    match arguments:
        case ["create", "-f", "-"]:
            job = Job(parse(sys.stdin.read()))
            state = STATE / job.name
            if state.exists():
                fail(f'jobs.batch "{job.name}" already exists')
            state.write_text(json.dumps({"ended": job.run(), "seen": False}))
            print(f"job.batch/{job.name} created")
        case ["wait", "--for=condition=complete", timeout, name] if re.fullmatch(r"--timeout=\d+[smh]", timeout):
            state = STATE / name.removeprefix("job/")
            conditions = json.loads(state.read_text())
            seen, conditions["seen"] = conditions["seen"], True
            state.write_text(json.dumps(conditions))
            if not seen or conditions["ended"] != "Complete":
                fail(f"timed out waiting for the condition on {name.replace('job', 'jobs', 1)}")
            print(f"{name.replace('job', 'job.batch', 1)} condition met")
        case ["get", "job", name, "-o", 'jsonpath={.status.conditions[?(@.type=="Failed")].status}']:
            conditions = json.loads((STATE / name).read_text())
            print("True" if conditions["seen"] and conditions["ended"] == "Failed" else "", end="")
        case ["delete", "job", name]:
            (STATE / name).unlink()
            print(f'job.batch "{name}" deleted')
        case _:
            fail(f"not a command of this stub: {arguments}")


if __name__ == "__main__":
    main(sys.argv[1:])
