"""`make demo` prints a model's answer, on a new lab and on the user's own cluster."""

import os
import subprocess
from pathlib import Path

import yaml

from lab import engine
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, Site, directory_of, load
from tests.lab.sharing import LABS_OF_THEIR_OWN

pytestmark = LABS_OF_THEIR_OWN

ANSWERED = ["pulumi:pulumi:Stack", "question", "answer", "pulumi up --stack dev", "ask the model"]


def demo(checkout: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the demo in a checkout."""
    python = str(checkout / ".venv/bin/python")
    return subprocess.run(
        [python, "-m", "lab.demo", *words],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def in_order(text: str, wanted: list[str]) -> bool:
    """Returns whether `text` has all of `wanted` in this order."""
    position = 0
    for each in wanted:
        position = text.find(each, position)
        if position < 0:
            return False
    return True


def answer_of(shown: subprocess.CompletedProcess[str]) -> str:
    """Returns the model's answer, and checks the output before it."""
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert in_order(shown.stdout, ANSWERED), shown.stdout
    [answer] = [line for line in shown.stdout.splitlines() if line.startswith("  answer ")]
    return answer.removeprefix("  answer ").strip()


def own_kubeconfig(cluster: Path, directory: Path) -> Path:
    """A user's kubeconfig, with another context name for the lab's cluster."""
    kubeconfig = yaml.safe_load(cluster.read_text())
    kubeconfig["contexts"] = [{**kubeconfig["contexts"][0], "name": "kind-dev"}]
    kubeconfig["current-context"] = ""
    own = directory / "kubeconfig"
    own.write_text(yaml.safe_dump(kubeconfig))
    return own


def test_the_demo_answers_on_a_lab_that_it_takes_up_and_on_somebodys_own_cluster_and_leaves_nothing(
    second_checkout: Path, tmp_path: Path
) -> None:
    assert len(answer_of(demo(second_checkout)).split()) > 2
    site = Lab(directory_of(second_checkout)).site
    settings = engine.settings(site)
    served = Project(site.directory / "program", settings, "dev").destroy()
    assert served.status == 0, served

    # The lab's images replace the public ones, which its nodes cannot pull. Everything else is the user's.
    own = {name: value for name, value in settings.items() if name.endswith("_IMAGE") or name == "HF_ENDPOINT"}
    own["KUBECONFIG"] = str(own_kubeconfig(site.kubeconfig, tmp_path))
    assert answer_of(demo(second_checkout, "--context", "kind-dev", **own))
    gone = demo(second_checkout, "--context", "kind-dev", "--down", **own)
    assert gone.returncode == 0, gone.stdout + gone.stderr

    gone = demo(second_checkout, "--down")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert load(directory_of(second_checkout)) is None


def test_a_context_that_is_not_there_gets_one_line_that_names_those_that_are(site: Site) -> None:
    answer = demo(CHECKOUT, "--context", "nowhere", KUBECONFIG=str(site.kubeconfig))
    assert answer.returncode == 1
    assert "heavylift:cluster.context: 'nowhere' is not in" in answer.stderr
    assert "expected one of lab" in answer.stderr
