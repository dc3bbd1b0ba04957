"""The exceptions that the command line turns into one line: all others are bugs of ours."""


class InputError(ValueError):
    """Bad input from the user: what came, what was expected, what to do, in one line.

    The command line prints the message without a traceback and exits with code 2.
    """


class NonFinite(ArithmeticError):
    """Scores or loss are not finite; names the iteration and the step.

    The command line prints the message without a traceback and exits with code 1.
    """
