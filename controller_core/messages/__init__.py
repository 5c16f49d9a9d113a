"""What goes into the controller and what comes out: events, answers, effects, and their JSON form."""
