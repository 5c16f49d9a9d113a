"""One seed drives a whole cluster; what must hold is checked after each step."""
