"""`pytest --rewrite` accepts what scenarios and examples print now: read that diff like code."""


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write the files of scenarios and examples anew")
