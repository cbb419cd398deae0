"""Whether a descriptor can be read, for descriptors of any number: `select` refuses those above 1023."""

import select


def wait_readable(descriptor: int, within_s: float | None) -> bool:
    """Wait until `descriptor` has data, an end or an error; False after `within_s` seconds, which None makes endless."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(None if within_s is None else within_s * 1000))
