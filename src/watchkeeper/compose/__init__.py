"""The one place where adapters are chosen and joined. Everything else gets what it needs handed to it.

parts           `Watchkeeper`, the object graph; each part is made when it is first used
this_machine    the parts that need no database: state directory, clocks, sockets, the daemon's host
databases       which databases there are, and how each is reached
housekeeping    pruning and removal, joined from the parts
"""

from watchkeeper.compose.parts import Watchkeeper

__all__ = ["Watchkeeper"]
