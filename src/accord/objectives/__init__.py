"""What is optimised: functions of a model and a batch that return named loss terms."""
