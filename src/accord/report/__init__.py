"""What came of a run, for people: one HTML page, Markdown and LaTeX."""
