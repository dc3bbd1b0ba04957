"""The one exception that means "your input, not our bug"."""


class InputError(ValueError):
    """Bad input from the user: what came, what was expected, what to do, in one line.

    The command line prints the message without a traceback and exits with code 2.
    """
