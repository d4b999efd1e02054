"""Renders the chart with Helm's own library, and compares.

    check.py FOLDER MANIFESTS [--write]

FOLDER has the chart with its files; MANIFESTS is deploy/daemonset.yaml, which is what the chart says with a namespace of its
own. With --write it is written. Exit status 1 if something is wrong.
"""

import json
import sys

from helm_python import chart as helm

HEADER = """\
# nodewarden on every node of a cluster, in mode observe, next to the kubelet, for those without Helm.
#
# This is what the chart in deploy/chart says with its defaults; `cargo xtask test checks` compares the two.
#
#   cargo xtask dist                                    (then import the image on the nodes, or push it to a registry)
#   kubectl apply -f deploy/daemonset.yaml
"""
OWN_NAMESPACE = {"namespace": {"create": True}}
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
    ({"http": {"anonymous": False}, "monitoring": {"podMonitor": {"enabled": True}}}, "PodMonitor"),
]


def render(chart, values):
    """The manifests in one text, in the order of their files, without comments of Helm."""
    files = chart.render(values=values, name="nodewarden", namespace="nodewarden")
    texts = [text.strip() for name, text in sorted(files.items()) if name.endswith(".yaml")]
    return "\n---\n".join(text.removeprefix("---\n") for text in order(texts) if text) + "\n"


def order(texts):
    """The namespace first, so that the others can be in it."""
    return sorted(texts, key=lambda text: "kind: Namespace" not in text)


def main():
    folder, manifests = sys.argv[1:3]
    problems = []
    lint = helm.lint(folder)
    problems += [str(message) for message in lint["messages"] if message["severity"] > 1]
    problems += [str(error) for error in lint["errors"]]
    with helm.Chart.load(folder) as chart:
        own = HEADER + render(chart, OWN_NAMESPACE)
        if "--write" in sys.argv:
            with open(manifests, "w", encoding="utf-8") as file:
                file.write(own)
        with open(manifests, encoding="utf-8") as file:
            if file.read() != own:
                problems.append(f"{manifests} is not what the chart says: run NODEWARDEN_WRITE_DOCS=1 cargo xtask test checks")
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
