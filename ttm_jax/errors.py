"""The exceptions that the command line turns into one line: all others are bugs of ours."""

from ttm_jax.plain_text import one_line

_LONGEST = 4000  # characters of a message


class InputError(ValueError):
    """Bad input from the user. The message is one line: what came, what was expected, what to do.

    The command line prints the message without a traceback and exits with code 2. Whatever a name
    or a value in the message contains, the message is one printable line.

    Args:
        message: The line; unprintable characters are escaped, and a very long one is shortened.

    Examples:
        >>> from ttm_jax import InputError, TTMConfig
        >>> try:
        ...     TTMConfig(lr=-1.0)
        ... except InputError as error:
        ...     print(error)
        lr is -1.0; expected a positive number
    """

    def __init__(self, message: str = "") -> None:
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST - 500]} ... {message[-500:]}"
        super().__init__(one_line(message))


class NonFinite(ArithmeticError):
    """Scores or loss are not finite; names the iteration and the step.

    The command line prints the message without a traceback and exits with code 1.
    """
