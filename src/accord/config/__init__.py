"""The experiment file: its keys (`schema`, `objectives`), reading it (`load`), rules (`checks`)."""
