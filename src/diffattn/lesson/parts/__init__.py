"""The parts of the lesson, 1 to 13: each is data, from which text and page are made."""
