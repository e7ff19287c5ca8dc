"""Runs the chat-with-doc load generator against a gateway and checks its signals.

chat_with_doc.py is run as it stands, except for the address in it. After each of
its phases the gateway's /metrics are read, and what the phase added must be what
its documentation expects: which key source dominates, that pods are chosen and
not the Service, how many distinct keys there are.

    python3 test/bench/doc.py [GATEWAY_URL [ADMIN_URL]]

Without arguments it uses the gateway of `make run`, and starts one for itself
where none is running. Exit code 1: a phase lost requests or a signal is not as
expected.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parent / "demo" / "run.sh"
ADDRESS = "http://YOUR-MODEL.flexinfer-system.svc.cluster.local:8000"
MODEL = "chat-prefix"  # what the examples serve for the generator's "/models"
PHASES = ["explicit-stable", "canonical-context", "malformed-key"]
DOMINATES = 0.9  # a share of a phase's decisions; its scrape may come a request late

SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:]\w*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def scrape(admin):
    """The gateway's samples: (name, frozenset of label pairs) -> value."""
    with urllib.request.urlopen(admin + "/metrics", timeout=10) as response:
        text = response.read().decode()
    samples = {}
    for line in text.splitlines():
        m = SAMPLE.match(line)
        if m:
            samples[m["name"], frozenset(LABEL.findall(m["labels"] or ""))] = float(m["value"])
    return samples


def total(samples, name, **labels):
    """The sum of name over all series that carry the labels."""
    wanted = set(labels.items())
    return sum(v for (n, have), v in samples.items() if n == name and wanted <= have)


class Phase:
    """What one phase added to the counters of the Model."""

    def __init__(self, before, after):
        self.before, self.after = before, after

    def added(self, name, **labels):
        name = "flexinfer_proxy_" + name
        return total(self.after, name, model=MODEL, **labels) - total(self.before, name, model=MODEL, **labels)

    def decisions(self, **labels):
        return self.added("routing_decisions_total", strategy="prefix", **labels)

    def cardinality(self, source):
        return total(self.after, "flexinfer_proxy_routing_key_cardinality", model=MODEL, strategy="prefix", key_source=source)


def signals(name, p):
    """Yields (what is expected, what was seen, whether it holds) for a phase."""
    n = p.decisions()
    share = lambda **labels: p.decisions(**labels) / n if n else 0.0
    expected = "explicit-header" if name == "explicit-stable" else "canonical"
    if name == "malformed-key":
        back = share(key_source="canonical") + share(key_source="session-fallback")
        yield "canonical or session-fallback dominates", f"{back:.2f}", back >= DOMINATES
        yield "the explicit source drops", f"{share(key_source='explicit-header'):.2f}", share(key_source="explicit-header") <= 1 - DOMINATES
        malformed = p.added("routing_malformed_keys_total", key_source="explicit-header")
        yield "malformed keys are counted", f"{malformed:.0f}", malformed >= DOMINATES * n > 0
    else:
        yield f"{expected} dominates", f"{share(key_source=expected):.2f}", share(key_source=expected) >= DOMINATES
    yield "pods are chosen", f"{share(outcome='pod'):.2f}", share(outcome="pod") >= DOMINATES
    yield "few distinct keys", f"{p.cardinality(expected):.0f}", 1 <= p.cardinality(expected) <= 16
    overflow = total(p.after, "flexinfer_proxy_routing_key_cardinality_overflow_total", model=MODEL)
    yield "no cardinality overflow", f"{overflow:.0f}", overflow == 0


def run(gateway, admin):
    """Runs the generator; returns the number of failed expectations."""
    program = (HERE / "chat_with_doc.py").read_text()
    if program.count(ADDRESS) != 1:
        sys.exit(f"chat_with_doc.py must name {ADDRESS} exactly once")
    program = program.replace(ADDRESS, gateway)
    failures = 0

    def check(what, seen, holds):
        nonlocal failures
        failures += not holds
        print(f"  {'ok  ' if holds else 'FAIL'} {what}: {seen}", flush=True)

    before = scrape(admin)
    done = []
    with subprocess.Popen([sys.executable, "-u", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as generator:
        generator.stdin.write(program)
        generator.stdin.close()
        for line in generator.stdout:
            # The generator stands still while its phase is looked at.
            os.kill(generator.pid, signal.SIGSTOP)
            print(line, end="", flush=True)
            after = scrape(admin)
            name = line.split(":")[0]
            done.append(name)
            ok, iterations = map(int, re.search(r"ok=(\d+)/(\d+)", line).groups())
            check("every request answered", f"{ok}/{iterations}", ok == iterations == 60)
            for what, seen, holds in signals(name, Phase(before, after)):
                check(what, seen, holds)
            before = after
            os.kill(generator.pid, signal.SIGCONT)
    check("every phase ran", ", ".join(done), done == PHASES and generator.returncode == 0)
    return failures


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


def main(args):
    gateway = args[0] if args else "http://127.0.0.1:8080"
    admin = args[1] if len(args) > 1 else "http://127.0.0.1:8090"
    demo = None
    try:
        if not args and not answers(admin + "/readyz"):
            print("==> no gateway is running: starting the one of `make run`", flush=True)
            demo = subprocess.Popen([str(DEMO)], env={**os.environ, "QUIET": "1"}, stdin=subprocess.DEVNULL)
            for _ in range(150):
                if answers(admin + "/readyz") or demo.poll() is not None:
                    break
                time.sleep(0.2)
        if not answers(admin + "/readyz"):
            sys.exit(f"no gateway answers at {admin}/readyz: start one with make run")
        failures = run(gateway, admin)
    finally:
        if demo is not None:
            demo.terminate()
            demo.wait(timeout=60)
    print(f"==> {'every signal is as expected' if not failures else f'{failures} signals are NOT as expected'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
