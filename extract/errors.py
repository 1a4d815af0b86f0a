"""What extraction raises when the fault lies with its input."""


class InputError(ValueError):
    """What came, what was wanted and the way out, in one sentence for the person who asked."""


class MissingExtraError(InputError):
    """An optional package is needed; the message names the install line."""


class UnreadableImageError(InputError):
    """An image cannot be decoded; the message names it, and `reason` says why, for whatever it is called.

    `lasting` is False where the system failed rather than the image: another try may succeed.
    """

    def __init__(self, name: str, reason: str, *, lasting: bool = True) -> None:
        super().__init__(f"{name} cannot be read: {reason}")
        self.name, self.reason, self.lasting = name, reason, lasting
