"""The controller alive: effects performed on a real or a simulated cluster."""
