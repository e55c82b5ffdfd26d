"""The one exception for input that a user can mend."""


class InputError(ValueError):
    """Bad input: the message is one line that gives the value and the remedy.

    The command line prints the message and exits with code 2; nothing else in the house
    catches it.
    """


def require(condition: bool, message: str) -> None:
    """Raise InputError with the message unless the condition holds."""
    if not condition:
        raise InputError(message)
