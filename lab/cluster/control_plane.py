"""The command lines of etcd, API server, controllers, scheduler, kwok, LeaderWorkerSet controller and CoreDNS.

Each function returns one program and writes its configuration. `lab.cluster.inside` starts the programs.
"""

import base64
import json
import secrets
from pathlib import Path
from typing import Any

import yaml

from lab.build.cache import ensure
from lab.build.pieces import COREDNS_PIECE, ETCD_PIECE, KUBERNETES_PIECE, KWOK_PIECE, LEADER_WORKER_SET_PIECE
from lab.cluster.certificates import Certificates
from lab.processes import Program
from lab.site import Site

MOST_REAL_NODES = 8


def kubectl() -> Path:
    """Returns the kubectl of the cluster's version."""
    return ensure(KUBERNETES_PIECE) / "kubectl"


def write_credentials(site: Site) -> None:
    """Creates certificates, one token for each identity, and kubeconfig files."""
    certificates = Certificates(site)
    certificates.create(site)
    identities = {"admin": ("admin", "system:masters")}
    for index in range(MOST_REAL_NODES):
        identities[f"real-{index}"] = (f"system:node:real-{index}", "system:nodes")
    rows = []
    for name, (user, group) in identities.items():
        token = secrets.token_hex(16)
        rows.append(f'{token},{user},{name},"{group}"')
        write_kubeconfig(site, certificates.authority, token, site.directory / f"{name}.kubeconfig")
    (site.directory / "tokens.csv").write_text("\n".join(rows) + "\n")
    site.kubeconfig.write_bytes((site.directory / "admin.kubeconfig").read_bytes())


def write_kubeconfig(site: Site, authority: Path, token: str, path: Path) -> None:
    """Writes a kubeconfig with the context `lab`."""
    cluster = {
        "server": site.url("api", "https"),
        "certificate-authority-data": _base64(authority),
    }
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "lab",
                "clusters": [{"name": "lab", "cluster": cluster}],
                "users": [{"name": "lab", "user": {"token": token}}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            }
        )
    )
    path.chmod(0o600)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def etcd(site: Site) -> Program:
    """etcd, without fsync: a lab need not survive a power failure."""
    clients, peers = (f"http://127.0.0.1:{site.ports[name]}" for name in ("etcd", "etcd-peer"))
    flags = {
        "name": "lab",
        "data-dir": site.directory / "etcd",
        "listen-client-urls": clients,
        "advertise-client-urls": clients,
        "listen-peer-urls": peers,
        "initial-advertise-peer-urls": peers,
        "initial-cluster": f"lab={peers}",
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    return Program("etcd", [ensure(ETCD_PIECE) / "etcd", *_flags(flags)])


def api_server(site: Site) -> Program:
    """The API server, with Node and RBAC authorisation, tokens from a file, and the default admission plugins."""
    certificates = Certificates(site)
    flags = {
        "etcd-servers": f"http://127.0.0.1:{site.ports['etcd']}",
        "bind-address": site.address,
        "advertise-address": site.address,
        "secure-port": site.ports["api"],
        "tls-cert-file": certificates.certificate("api"),
        "tls-private-key-file": certificates.key("api"),
        "client-ca-file": certificates.authority,
        "token-auth-file": site.directory / "tokens.csv",
        # Tokens of EKS clusters, which the lab's AWS knows.
        "authentication-token-webhook-config-file": _webhook(site),
        "authentication-token-webhook-version": "v1",
        "authentication-token-webhook-cache-ttl": "10s",
        "authorization-mode": "Node,RBAC",
        "service-cluster-ip-range": site.service_network,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": certificates.service_accounts,
        "service-account-signing-key-file": certificates.service_accounts,
        "kubelet-client-certificate": certificates.certificate("kubelet-client"),
        "kubelet-client-key": certificates.key("kubelet-client"),
        "kubelet-preferred-address-types": "InternalIP",
        "allow-privileged": "true",
        # A loopback address cannot be an endpoint of the Service `kubernetes`.
        "endpoint-reconciler-type": "master-count" if site.isolated else "none",
    }
    return Program("kube-apiserver", [ensure(KUBERNETES_PIECE) / "kube-apiserver", *_flags(flags)])


def _webhook(site: Site) -> Path:
    """Writes where the API server asks about a token that it does not know."""
    cluster = {"name": "aws", "cluster": {"server": f"{site.url('aws')}/lab/token-review"}}
    context = {"name": "aws", "context": {"cluster": "aws", "user": "aws"}}
    users = [{"name": "aws", "user": {}}]
    content = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "users": users}
    path = site.directory / "token-webhook.yaml"
    path.write_text(yaml.safe_dump({**content, "current-context": "aws"}))
    return path


def controller_manager(site: Site) -> Program:
    """The controllers of Kubernetes."""
    certificates = Certificates(site)
    flags = {
        "kubeconfig": site.kubeconfig,
        "service-account-private-key-file": certificates.service_accounts,
        "root-ca-file": certificates.authority,
        "use-service-account-credentials": "true",
        "allocate-node-cidrs": "false",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": site.ports["controller-manager"],
        # Short, so that a test sees the loss of a node within its timeout.
        "node-monitor-grace-period": "16s",
    }
    return Program("kube-controller-manager", [ensure(KUBERNETES_PIECE) / "kube-controller-manager", *_flags(flags)])


def scheduler(site: Site) -> Program:
    """The default scheduler."""
    flags = {
        "kubeconfig": site.kubeconfig,
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": site.ports["scheduler"],
    }
    return Program("kube-scheduler", [ensure(KUBERNETES_PIECE) / "kube-scheduler", *_flags(flags)])


def kwok(site: Site) -> Program:
    """kwok: keeps simulated nodes Ready, marks their pods Ready at once, and completes the pods of Jobs at once."""
    piece = ensure(KWOK_PIECE)
    flags = {
        "kubeconfig": site.kubeconfig,
        "manage-nodes-with-annotation-selector": "kwok.x-k8s.io/node=fake",
        "enable-crds": "",
        "config": piece / "stages.yaml",
        "server-address": f"127.0.0.1:{site.ports['kwok']}",
        "node-lease-duration-seconds": "40",
    }
    return Program("kwok", [piece / "kwok", *_flags(flags)])


def leader_worker_set(site: Site) -> Program:
    """The LeaderWorkerSet controller and its webhooks, as a process outside the cluster with the lab's certificate."""
    configuration = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {
            "host": site.address,
            "port": site.ports["lws-webhook"],
            "certDir": str(Certificates(site).webhooks),
        },
        "metrics": {"bindAddress": f"127.0.0.1:{site.ports['lws-metrics']}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{site.ports['lws-health']}"},
    }
    path = site.directory / "lws.yaml"
    path.write_text(yaml.safe_dump(configuration))
    flags = _flags({"config": path, "kubeconfig": site.kubeconfig})
    return Program("leader-worker-set", [ensure(LEADER_WORKER_SET_PIECE) / "lws", *flags])


def leader_worker_set_manifests(site: Site) -> str:
    """Returns the controller's manifests without its Deployment. The webhooks point at the process outside."""
    authority = _base64(Certificates(site).authority)
    documents: list[dict[str, Any]] = []
    for document in yaml.safe_load_all((ensure(LEADER_WORKER_SET_PIECE) / "manifests.yaml").read_text()):
        if document["kind"] == "Deployment":
            continue
        for webhook in document.get("webhooks", ()):
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"] = {"url": site.url("lws-webhook", "https") + path, "caBundle": authority}
        documents.append(document)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def coredns(site: Site) -> Program:
    """Cluster DNS for the pods of real nodes. It also resolves the hub's name."""
    corefile = site.directory / "Corefile"
    corefile.write_text(
        f""".:53 {{
    bind {site.address}
    errors
    hosts {{
        {site.address} hub.heavylift.lab
        fallthrough
    }}
    kubernetes cluster.local {{
        kubeconfig {site.kubeconfig}
    }}
}}
"""
    )
    return Program("coredns", [ensure(COREDNS_PIECE) / "coredns", "-conf", corefile])


def _flags(flags: dict[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
