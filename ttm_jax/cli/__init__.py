"""The command `ttm`, one file per subcommand, and how a command starts and ends."""
