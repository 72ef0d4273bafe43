"""The experiment file: its keys (`schema`, `model_settings`, `objectives`), reading it (`load`),
rules (`checks`)."""
