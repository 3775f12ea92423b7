"""The name of a staged directory, `<mount>/<digest>/`: 16 hexadecimal digits for the weights."""

from __future__ import annotations

import re

DIGEST_DIGITS = 16
DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_DIGITS}}}")
