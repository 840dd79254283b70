"""What the command line does with files: read, fit, predict, evaluate."""
