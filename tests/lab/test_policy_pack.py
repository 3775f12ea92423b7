"""The policy pack, run by the engine on previews of the committed stack `h200`. No cluster is asked."""

from pathlib import Path

import pytest

from lab.engine import Engine
from lab.project import Project
from lab.site import CHECKOUT

pytestmark = pytest.mark.xdist_group("policy pack")

PACK = ("--policy-pack", str(CHECKOUT / "policy"))
PRODUCTION = ("--policy-pack-config", str(CHECKOUT / "policy" / "production.json"))


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The stack `h200` as committed, with an engine of its own and a cluster that cannot be reached."""
    engine = Engine(tmp_path_factory.mktemp("engine"))
    engine.install()
    cluster = {
        "HEAVYLIFT_KUBECONFIG": str(CHECKOUT / "tests" / "kubeconfig.yaml"),
        "HEAVYLIFT_KUBE_CONTEXT": "somebody-elses",
    }
    return Project.copy(CHECKOUT, engine.directory / "program", {**engine.settings, **cluster}, "h200")


def test_the_committed_stack_gets_advice_only(h200: Project) -> None:
    advised = h200.preview(*PACK)
    assert advised.status == 0, advised
    assert "[mandatory]" not in advised.output
    for rule in ("full-verification", "images-by-digest", "network-policy", "weights-locked"):
        assert f"[advisory]  {rule}" in advised.output


def test_the_levels_of_production_refuse_it(h200: Project) -> None:
    refused = h200.preview(*PACK, *PRODUCTION)
    assert refused.status != 0, refused
    for rule in ("full-verification", "images-by-digest", "weights-locked"):
        assert f"[mandatory]  {rule}" in refused.output


def test_a_ceiling_is_a_setting_of_its_rule(h200: Project, tmp_path: Path) -> None:
    (tmp_path / "levels.json").write_text('{"cost-ceiling": {"usd_per_hour": 40}, "images-by-digest": "disabled"}')
    refused = h200.preview(*PACK, "--policy-pack-config", str(tmp_path / "levels.json"))
    assert refused.status != 0, refused
    assert "State nodes.usd_per_gpu_hour" in refused.output
    assert "images-by-digest" not in refused.output
