"""The table of the lab's pieces, each built from a pin in `lab/build/pins/`.

Expected durations are for two cores and empty Go caches. With warm caches most pieces take seconds.
"""

import json
import shutil
from pathlib import Path

from lab.build.cache import Piece, Progress, ensure
from lab.build.golang import GoModule
from lab.processes import run

PULUMI = GoModule(
    "pulumi",
    {"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", "pulumi-generate-python": "."},
    "about 5 min",
    # The Automation API rejects an engine without a version.
    "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={version}",
    "github.com/pulumi/pulumi/pkg/v3",
    sources=("main.go",),
)
YAML_LANGUAGE_HOST = GoModule(
    "pulumi-language-yaml",
    {"pulumi-language-yaml": "."},
    "about 1 min",
    "-X github.com/pulumi/pulumi-yaml/pkg/version.Version={version}",
    "github.com/pulumi/pulumi-yaml",
    sources=("main.go",),
)
PROVIDER_VERSION = "4.25.0"
PROVIDER = GoModule(
    "kubernetes-provider",
    {"pulumi-resource-kubernetes": "."},
    "about 7 min",
    f"-X github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version={PROVIDER_VERSION}",
    sources=("main.go",),
)
KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
)
KUBERNETES = GoModule(
    "kubernetes",
    {program: f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS},
    "about 5 min",
    "-X k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/kubernetes",
)
ETCD = GoModule("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}, "about 1 min")
COREDNS = GoModule("coredns", {"coredns": "github.com/coredns/coredns"}, "about 2 min")
KWOK = GoModule("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}, "about 1 min")
LEADER_WORKER_SET = GoModule("lws", {"lws": "sigs.k8s.io/lws/cmd"}, "about 1 min")
ACTIONLINT = GoModule("actionlint", {"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"}, "about 20 s")
ACT = GoModule("act", {"act": "github.com/nektos/act"}, "about 2 min")
NETWORK_POLICIES = GoModule(
    "kube-network-policies", {"kube-network-policies": "sigs.k8s.io/kube-network-policies/cmd"}, "about 1 min"
)
VERSITYGW = GoModule("versitygw", {"versitygw": "github.com/versity/versitygw/cmd/versitygw"}, "about 1 min")
PROMETHEUS = GoModule(
    "prometheus",
    {
        "prometheus": "github.com/prometheus/prometheus/cmd/prometheus",
        "promtool": "github.com/prometheus/prometheus/cmd/promtool",
    },
    "about 6 min",
    # Of its ways to find targets, only that of Kubernetes: the SDKs of all clouds would be built too.
    tags=("remove_all_sd", "enable_kubernetes_sd"),
)
PROMETHEUS_OPERATOR = GoModule("prometheus-operator", {}, "about 10 s")
"""Of the operator, only the definitions of its objects."""
GATEWAY_API = GoModule("gateway-api", {}, "about 10 s")
"""The definitions of its objects, without a controller."""

KWOK_STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")


def _piece(module: GoModule) -> Piece:
    return Piece(module.name, module.inputs, module.build, module.expectation)


def _build_pulumi(workspace: Path, progress: Progress) -> None:
    PULUMI.build(workspace, progress)
    sdk = PULUMI.module_directory("github.com/pulumi/pulumi/sdk/v3")
    runner = workspace / "pulumi-language-python-exec"
    shutil.copyfile(sdk / "python/cmd" / runner.name, runner)
    runner.chmod(0o755)


def _build_provider(workspace: Path, progress: Progress) -> None:
    """Builds in a copy of the source folder, with the two files of the module that `main.go` embeds."""
    source = workspace / "source"
    shutil.copytree(PROVIDER.directory, source)
    module = (
        PROVIDER.module_directory("github.com/pulumi/pulumi-kubernetes/provider/v4") / "cmd/pulumi-resource-kubernetes"
    )
    schema = json.loads((module / "schema.json").read_text())
    (source / "schema.json").write_text(json.dumps({**schema, "version": PROVIDER_VERSION}))
    shutil.copy(module / "terraform-mapping.json", source)
    PROVIDER.build(workspace, progress, directory=source)
    shutil.rmtree(source)


def _build_kwok(workspace: Path, progress: Progress) -> None:
    KWOK.build(workspace, progress)
    stages = KWOK.module_directory("sigs.k8s.io/kwok") / "kustomize/stage"
    texts = [(stages / f"{stage}.yaml").read_text() for stage in KWOK_STAGES]
    (workspace / "stages.yaml").write_text("\n---\n".join(texts))


def _build_leader_worker_set(workspace: Path, progress: Progress) -> None:
    LEADER_WORKER_SET.build(workspace, progress)
    manifests = LEADER_WORKER_SET.module_directory("sigs.k8s.io/lws") / "config/default"
    kubectl = ensure(KUBERNETES_PIECE) / "kubectl"
    (workspace / "manifests.yaml").write_text(run(kubectl, "kustomize", manifests))


def _copy_operator_definitions(workspace: Path, _progress: Progress) -> None:
    module = PROMETHEUS_OPERATOR.module_directory("github.com/prometheus-operator/prometheus-operator")
    for kind in ("podmonitors", "prometheuses", "prometheusrules"):
        shutil.copy(module / f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml", workspace)


def _copy_gateway_definitions(workspace: Path, _progress: Progress) -> None:
    module = GATEWAY_API.module_directory("sigs.k8s.io/gateway-api")
    for kind in ("gateways", "httproutes"):
        shutil.copy(module / f"config/crd/standard/gateway.networking.k8s.io_{kind}.yaml", workspace)


PULUMI_PIECE = Piece("pulumi", PULUMI.inputs, _build_pulumi, PULUMI.expectation)
YAML_LANGUAGE_HOST_PIECE = _piece(YAML_LANGUAGE_HOST)
PROVIDER_PIECE = Piece("kubernetes-provider", PROVIDER.inputs, _build_provider, PROVIDER.expectation)
KUBERNETES_PIECE = _piece(KUBERNETES)
ETCD_PIECE = _piece(ETCD)
COREDNS_PIECE = _piece(COREDNS)
KWOK_PIECE = Piece("kwok", (*KWOK.inputs, *KWOK_STAGES), _build_kwok, KWOK.expectation)
LEADER_WORKER_SET_PIECE = Piece(
    "lws", (*LEADER_WORKER_SET.inputs, *KUBERNETES.inputs), _build_leader_worker_set, LEADER_WORKER_SET.expectation
)
NETWORK_POLICIES_PIECE = _piece(NETWORK_POLICIES)
VERSITYGW_PIECE = _piece(VERSITYGW)
ACTIONLINT_PIECE = _piece(ACTIONLINT)
"""Checks workflows of GitHub."""
ACT_PIECE = _piece(ACT)
"""Runs workflows of GitHub on this machine."""
PROMETHEUS_PIECE = _piece(PROMETHEUS)
PROMETHEUS_OPERATOR_PIECE = Piece(
    "prometheus-operator", PROMETHEUS_OPERATOR.inputs, _copy_operator_definitions, PROMETHEUS_OPERATOR.expectation
)
GATEWAY_API_PIECE = Piece("gateway-api", GATEWAY_API.inputs, _copy_gateway_definitions, GATEWAY_API.expectation)
"""These three are built by the tests that need them."""

ENGINE = (PULUMI_PIECE, YAML_LANGUAGE_HOST_PIECE, PROVIDER_PIECE)
CONTROL_PLANE = (KUBERNETES_PIECE, ETCD_PIECE, KWOK_PIECE, LEADER_WORKER_SET_PIECE)
REAL_NODE = (COREDNS_PIECE,)
SERVERS = (VERSITYGW_PIECE,)
