"""What probes raise when the fault lies with their input."""


class InputError(ValueError):
    """What came, what was wanted and the way out, in one sentence for the person who asked."""
