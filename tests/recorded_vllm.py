"""What real vLLM said of itself on the lab (`make prove-vllm`), as tests compare the program with it."""

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "data/vllm/0.32.0"


def recorded(name: str) -> Any:
    """Returns the content of a recorded JSON file."""
    return json.loads((RECORDED / name).read_text())
