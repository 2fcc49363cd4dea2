"""How the lesson is shown: walked through in the terminal, or as one page."""
