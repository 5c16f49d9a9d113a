"""What a person approves: effects, the conditions around them, their digest and their text."""
