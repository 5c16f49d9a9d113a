"""`pytest --rewrite` accepts what the scenarios print now: read that diff like code."""


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write the scenario files anew")
