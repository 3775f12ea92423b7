"""`make demo` ends with a model's answer: on a lab of its own, as a newcomer meets it, and on one's own cluster."""

import os
import subprocess
from pathlib import Path

import yaml

from lab.site import CHECKOUT, Site, directory_of, load

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


def test_the_demo_uses_somebodys_own_context_with_the_same_stack_file(
    site: Site, environment: dict[str, str], tmp_path: Path
) -> None:
    # The lab's cluster under another name; its nodes cannot pull the public images, so its own take their place.
    kubeconfig = yaml.safe_load(site.kubeconfig.read_text())
    kubeconfig["contexts"].append({**kubeconfig["contexts"][0], "name": "kind-dev"})
    kubeconfig["contexts"] = [each for each in kubeconfig["contexts"] if each["name"] == "kind-dev"]
    kubeconfig["current-context"] = ""
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(kubeconfig))
    images = {name: value for name, value in environment.items() if name.endswith("_IMAGE") or name == "HF_ENDPOINT"}
    settings = {**images, "KUBECONFIG": str(own), "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", "")}
    shown = demo(CHECKOUT, "--context", "kind-dev", **settings)
    try:
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert in_order(shown.stdout, ANSWERED), shown.stdout
    finally:
        gone = demo(CHECKOUT, "--context", "kind-dev", "--down", **settings)
    assert gone.returncode == 0, gone.stdout + gone.stderr


def test_a_context_that_is_not_there_gets_one_line_that_names_those_that_are(site: Site) -> None:
    answer = demo(CHECKOUT, "--context", "nowhere", KUBECONFIG=str(site.kubeconfig))
    assert answer.returncode == 1
    assert "heavylift:cluster.context: 'nowhere' is not in" in answer.stderr
    assert "expected one of lab" in answer.stderr
