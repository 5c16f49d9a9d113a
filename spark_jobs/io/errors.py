"""What can be wrong with a dataset."""


class DatasetError(Exception):
    """A dataset that is not there or has other columns than its schema says."""
