"""What a disk, a file system or a bucket said, in one clear sentence.

TensorStore gives a ValueError whose text begins with a status and may hold the system's error number, among
paths and details that help nobody who waits for features; `--debug` shows it whole.
"""

import errno
import os
import re

_STATUS = re.compile(r"([A-Z_]+): ")
_NUMBER = re.compile(r"os_error_code='(\d+)'")
_SAID = {
    "PERMISSION_DENIED": "access is denied",
    "UNAUTHENTICATED": "the credentials are not accepted",
    "NOT_FOUND": "there is no such bucket or file",
    "UNAVAILABLE": "it does not answer",
    "DEADLINE_EXCEEDED": "it does not answer",
    "RESOURCE_EXHAUSTED": "there is no space left, or too much was asked at once",
}
_OTHER = "choose another place with --store"
_WAYS_OUT = {
    errno.ENOSPC: f"free some space, or {_OTHER}",
    errno.EDQUOT: f"free some space, or {_OTHER}",
    errno.EROFS: _OTHER,
    errno.EACCES: f"change its permissions, or {_OTHER}",
    errno.EPERM: f"change its permissions, or {_OTHER}",
}


def explain(error: Exception) -> str:
    """Reason and way out: `No space left on device; free some space, or …`."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := _NUMBER.search(str(error))):
        number = int(found[1])
    if number is not None:
        return because(number)
    status = _STATUS.match(str(error))
    said = _SAID.get(status[1] if status else "")
    if said is None:
        said = (str(error).splitlines() or [type(error).__name__])[0].split(" [")[0][:200]
    return f"{said}; check its address and your credentials, or {_OTHER}"


def because(number: int) -> str:
    """The same of a system's error number."""
    return f"{os.strerror(number)}; {_WAYS_OUT.get(number, f'check the path, or {_OTHER}')}"
