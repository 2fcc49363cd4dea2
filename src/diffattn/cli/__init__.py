"""The command line; a command's module is imported only when it is called."""
