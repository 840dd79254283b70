"""The command line: a file a group of commands, each of which parses, calls and prints."""
