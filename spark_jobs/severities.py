"""How much a finding matters, the worst first.

A module of its own, without imports: the command reads it before it knows whether it needs anything else.
"""

from typing import Final

SEVERITIES: Final = ("critical", "warning", "info")
