"""What tests ask of processes."""

import psutil


def command_of(process: psutil.Process) -> str:
    """Its command line; empty where it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
