"""Renders the chart with Helm's own library, and compares.

    check.py FOLDER DEPLOY [--write]

FOLDER has the chart with its files; DEPLOY is the folder with the plain manifests, which are what the chart says with a
namespace of its own. With --write they are written. Exit status 1 if something is wrong.
"""

import json
import pathlib
import re
import sys

from helm_python import chart as helm

OBSERVE = """\
# nodewarden on every node of a cluster, in mode observe, next to the kubelet, for those without Helm.
#
# This is what the chart in deploy/chart says with its defaults; `cargo xtask test checks` compares the two.
#
#   cargo xtask dist                                    (then import the image on the nodes, or push it to a registry)
#   kubectl apply -f deploy/daemonset.yaml
"""
AUGMENT = """\
# nodewarden on every node of a cluster, in mode augment: it acts beside the kubelet. Every feature is audited until it is set to
# Enforce; docs/AUGMENT.md says what each writes, and which rights `eviction: Enforce` needs in addition. Not together with
# deploy/daemonset.yaml, which has the same names.
#
# This is what the chart in deploy/chart says with mode=augment; `cargo xtask test checks` compares the two.
#
#   cargo xtask dist                                    (then import the image on the nodes, or push it to a registry)
#   kubectl apply -f deploy/augment.yaml
#   kubectl apply -f deploy/undo.yaml                   (before it is deleted)
"""
UNDO = """\
# Every node puts back what agents in mode augment have written, after kill -9 of an agent too. Before deploy/augment.yaml is deleted:
#
#   kubectl apply -f deploy/undo.yaml
#   kubectl -n nodewarden wait --for=condition=complete --timeout=5m job/nodewarden-undo
#   kubectl delete -f deploy/undo.yaml -f deploy/augment.yaml
#
# This is what the chart in deploy/chart does before it is uninstalled; `cargo xtask test checks` compares the two.
"""
HOOKS = "undo.yaml"
OWN_NAMESPACE = {"namespace": {"create": True}}
BESIDE = {"mode": "augment", "augment": {"features": {"eviction": "Enforce"}, "settings": {"evictionMargin": "128Mi"}}}
EVERYTHING = {
    "image": {"repository": "registry.example/nodewarden", "digest": "sha256:" + "0" * 64},
    "http": {"anonymous": False, "allowedHosts": ["node.example"]},
    "security": "capabilities",
    "settings": {"maxCgroups": 8192},
    "kubelet": {"maxPods": 50},
    "monitoring": {
        "serviceMonitor": {"enabled": True},
        "rules": {"enabled": True, "runbooks": "https://runbooks.example"},
        "dashboards": {"enabled": True},
    },
}
# Values, and a word that must be in what the chart says to them.
REFUSED = [
    ({"mode": "manage"}, "mode"),
    ({"http": {"port": 0}}, "port"),
    ({"image": {"digest": "latest"}}, "digest"),
    ({"unknown": 1}, "unknown"),
    ({"settings": {"mode": "manage"}}, "settings"),
    ({"settings": {"augment": {}}}, "settings"),
    ({"mode": "augment", "augment": {"features": {"events": "On"}}}, "events"),
    ({"mode": "augment", "augment": {"undo": {"timeoutSeconds": 1}}}, "timeoutSeconds"),
    ({"http": {"anonymous": False}, "monitoring": {"podMonitor": {"enabled": True}}}, "PodMonitor"),
]


def render(chart, values, hooks=False):
    """The manifests in one text, in the order of their files; those of hooks, or all others."""
    files = chart.render(values=values, name="nodewarden", namespace="nodewarden")
    files = {name: text for name, text in files.items() if name.endswith(".yaml") and name.endswith(HOOKS) == hooks}
    texts = [text.strip() for name, text in sorted(files.items())]
    return "\n---\n".join(text.removeprefix("---\n") for text in order(texts) if text) + "\n"


def plain(chart):
    """The plain manifests, by their file names."""
    beside = OWN_NAMESPACE | {"mode": "augment"}
    undo = re.sub(r"  annotations:\n(    helm\.sh/.*\n)+", "", render(chart, beside, hooks=True))
    return {
        "daemonset.yaml": OBSERVE + render(chart, OWN_NAMESPACE),
        "augment.yaml": AUGMENT + render(chart, beside),
        "undo.yaml": UNDO + undo,
    }


def order(texts):
    """The namespace first, so that the others can be in it."""
    return sorted(texts, key=lambda text: "kind: Namespace" not in text)


def main():
    folder, deploy = sys.argv[1:3]
    problems = []
    lint = helm.lint(folder)
    problems += [str(message) for message in lint["messages"] if message["severity"] > 1]
    problems += [str(error) for error in lint["errors"]]
    with helm.Chart.load(folder) as chart:
        for name, text in plain(chart).items():
            file = pathlib.Path(deploy) / name
            if "--write" in sys.argv:
                file.write_text(text, encoding="utf-8")
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                problems.append(f"{file} is not what the chart says: run NODEWARDEN_WRITE_DOCS=1 cargo xtask test checks")
        if render(chart, {}, hooks=True).strip():
            problems.append("in mode observe there is something to undo")
        beside = render(chart, BESIDE)
        for part in ["pods/eviction", "kind: ValidatingAdmissionPolicy", "evictionMargin: 128Mi", "eviction: Enforce"]:
            if part not in beside:
                problems.append(f"with eviction enforced, {part!r} is missing")
        if "pods/eviction" in render(chart, {"mode": "augment"}):
            problems.append("the chart gives rights to evict where nothing is evicted")
        everything = render(chart, EVERYTHING)
        for part in [
            "image: registry.example/nodewarden@sha256:",
            "name: system:auth-delegator",
            "kind: ServiceMonitor",
            "kind: PrometheusRule",
            "https://runbooks.example#nodewardenoomkill",
            "nodewarden-pod.json:",
            "maxCgroups: 8192",
            "maxPods: 50",
            "inCluster: true",
            "SYS_PTRACE",
        ]:
            if part not in everything:
                problems.append(f"with everything on, {part!r} is missing")
        for part in ["privileged: true", "file:///", "kind: Namespace", "prometheus.io/scrape"]:
            if part in everything:
                problems.append(f"with everything on, there is {part!r}")
        for values, word in REFUSED:
            try:
                render(chart, values)
                problems.append(f"{json.dumps(values)} is not refused")
            except Exception as error:  # each kind of refusal has a class of its own
                if word not in str(error):
                    problems.append(f"{json.dumps(values)} is refused without {word!r}: {error}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


sys.exit(main())
