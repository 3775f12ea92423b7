"""`make demo` ends with a model's answer: on a lab of its own, as a newcomer meets it, and on one's own cluster."""

import os
import subprocess
from pathlib import Path

import yaml

from lab import engine
from lab.lifecycle import Lab
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
    """Whether `text` has all of `wanted`, each after the one before."""
    position = 0
    for each in wanted:
        position = text.find(each, position)
        if position < 0:
            return False
    return True


def test_the_demo_takes_everything_up_and_prints_an_answer_and_demo_down_leaves_nothing(second_checkout: Path) -> None:
    shown = demo(second_checkout)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert in_order(shown.stdout, ANSWERED), shown.stdout
    [answer] = [line for line in shown.stdout.splitlines() if line.startswith("  answer ")]
    assert len(answer.split()) > 3
    gone = demo(second_checkout, "--down")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert load(directory_of(second_checkout)) is None


def test_the_demo_uses_somebodys_own_context_with_the_same_stack_file(second_checkout: Path, tmp_path: Path) -> None:
    # A lab's cluster under another name; its nodes cannot pull the public images, so its own take their place.
    started = Lab(directory_of(second_checkout))
    python = str(second_checkout / ".venv/bin/python")
    subprocess.run([python, "-m", "lab", "up"], cwd=second_checkout, check=True, capture_output=True)
    kubeconfig = yaml.safe_load(started.site.kubeconfig.read_text())
    kubeconfig["contexts"] = [{**kubeconfig["contexts"][0], "name": "kind-dev"}]
    kubeconfig["current-context"] = ""
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(kubeconfig))
    settings = {
        name: value
        for name, value in engine.settings(started.site).items()
        if name.endswith("_IMAGE") or name == "HF_ENDPOINT"
    }
    settings |= {"KUBECONFIG": str(own)}
    shown = demo(second_checkout, "--context", "kind-dev", **settings)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert in_order(shown.stdout, ANSWERED), shown.stdout
    gone = demo(second_checkout, "--context", "kind-dev", "--down", **settings)
    assert gone.returncode == 0, gone.stdout + gone.stderr


def test_a_context_that_is_not_there_gets_one_line_that_names_those_that_are(site: Site) -> None:
    answer = demo(CHECKOUT, "--context", "nowhere", KUBECONFIG=str(site.kubeconfig))
    assert answer.returncode == 1
    assert "heavylift:cluster.context: 'nowhere' is not in" in answer.stderr
    assert "expected one of lab" in answer.stderr
