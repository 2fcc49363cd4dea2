"""The parts of the lesson, 1 to 9: each is data, from which text and page are made."""
