"""`python -m tests.conformance VECTORS OUTCOMES`: see `runner`."""

from tests.conformance.runner import main

main()
