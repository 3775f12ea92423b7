"""The name of a staged directory, `<mount>/<digest>/`: what the weights are, in so many hexadecimal digits."""

from __future__ import annotations

import re

DIGEST_DIGITS = 16
DIGEST = re.compile(rf"[0-9a-f]{{{DIGEST_DIGITS}}}")
