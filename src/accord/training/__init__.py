"""From objective to run directory: optimisers, schedules, checkpoints, the loop."""
