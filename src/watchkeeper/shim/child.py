"""The agent's process: forked, prepared, held on a pipe until its record is durable, then released to become the agent."""

import errno
import os

from . import pipes, records, surroundings, system
from .crash import crashpoint
from .spec import Spec

_NOT_RUN = 127


class Streams:
    """The agent's standard streams. This is where a terminal will be one more way to make them."""

    def __init__(self, stdin: int, stdout: int, stderr: int, input_pipe: int | None, ends: dict[str, int]) -> None:
        """Descriptors for the child, our end of its input if that stays open, and our end of each stream that goes through a pipe."""
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.input_pipe = input_pipe
        self.ends = ends

    def close_child_side(self) -> None:
        """After the fork they are the child's alone."""
        for fd in (self.stdin, self.stdout, self.stderr):
            os.close(fd)


class Forked:
    """A child that waits on its pipe."""

    def __init__(self, pid: int, go: int, said: int) -> None:
        """Our ends of its two pipes: one to let it go, one on which it says why it could not become the agent."""
        self.pid = pid
        self._go = go
        self._said = said

    def release(self) -> None:
        """Let it become the agent. Only after its record is durable: without a record no agent ever ran."""
        crashpoint("shim.release.before")
        try:  # noqa: SIM105 - contextlib would cost start-up time
            os.write(self._go, b"g")
        except BrokenPipeError:
            pass  # it was killed while it waited; its end is about to be seen
        os.close(self._go)
        crashpoint("shim.release.after")

    def failure(self) -> "tuple[str, int] | None":
        """In which step and by which error it could not become the agent, or None if it did. To be asked once, when it has ended: then this does not wait.

        The step is `prepare`, `chdir`, `directory` or `branch` if what was approved is not what is there, `limits`, `exec`, or `interpreter` if the program is
        there and what it needs to run is not.
        """
        said = os.read(self._said, 64).split()
        os.close(self._said)
        return (said[0].decode(), int(said[1])) if said else None


def open_streams(directory: int, spec: Spec) -> Streams:
    """Make the agent's output and standard input. Raises OSError."""
    (out, err), ends = _open_output(directory)
    if spec.input:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        return Streams(reader, out, err, writer, ends)
    if spec.prompt_by == "stdin":
        return Streams(os.open("prompt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory), out, err, None, ends)
    return Streams(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), out, err, None, ends)


def _open_output(directory: int) -> tuple[list[int], dict[str, int]]:
    """The agent's end of each stream, and ours. Where there can be no pipes the agent gets the files themselves, which it can truncate. Raises OSError."""
    try:
        both = {name: pipes.make(directory, name) for name in pipes.NAMES}
    except OSError as problem:
        if problem.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}:
            raise
    else:
        return [agents for _, agents in both.values()], {name: ours for name, (ours, _) in both.items()}
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return [os.open(pipes.log_name(name), flags, records.MODE, dir_fd=directory) for name in pipes.NAMES], {}


def command_line(directory: int, path: bytes, spec: Spec) -> list[bytes]:
    """The command line with the prompt's text or path in its place. Raises OSError."""
    filled = b""
    if spec.prompt_by == "argument":
        filled = records.read_bytes(directory, "prompt")
    elif spec.prompt_by == "file":
        filled = path + b"/prompt"
    return [filled if word is None else word for word in spec.argv]


def fork(spec: Spec, argv: list[bytes], streams: Streams) -> Forked:
    """Fork the child that will become the agent. Raises OSError."""
    go_reader, go_writer = os.pipe()
    said_reader, said_writer = os.pipe()
    parent = os.getpid()
    crashpoint("shim.fork.before")
    # A signal that comes to the child before it has put our handlers away would be lost; held back, it arrives afterwards.
    system.block_signals()
    pid = os.fork()
    if pid == 0:
        step = [b"prepare"]
        number = errno.EIO
        try:
            os.close(go_writer)
            _become(spec, argv, streams, parent, go_reader, step)
        except OSError as problem:
            number = problem.errno or errno.EIO
        except MemoryError:
            number = errno.ENOMEM  # the caller's own limit, which binds from the step before on
        except ValueError:
            number = errno.EINVAL  # a prompt with a zero byte in it, as an argument
        except BaseException:  # noqa: BLE001, S110 - whatever it is, this must never return into the shim's own code
            pass
        finally:
            os.write(said_writer, b"%s %d" % (_step(step[0], number, argv[0]), number))
            os._exit(_NOT_RUN)
    system.allow_signals()
    crashpoint("shim.fork.after")
    os.close(go_reader)
    os.close(said_writer)
    return Forked(pid, go_writer, said_reader)


def _step(step: bytes, number: int, program: bytes) -> bytes:
    """Whether it is the program that is missing, or what a program that is there needs to run."""
    lacks = number == errno.ENOENT and step == b"exec" and b"/" in program and os.path.exists(program)  # noqa: PTH110 - pathlib would cost start-up time
    return b"interpreter" if lacks else step


def _become(spec: Spec, argv: list[bytes], streams: Streams, parent: int, go: int, step: list[bytes]) -> None:
    """In the child: everything that must be so when the agent begins, then wait, then exec. All other descriptors are close-on-exec.

    `step` receives the name of each step before it is tried, so that an error can name it.
    """
    os.setsid()
    system.reset_signals()
    system.die_with_parent(system.SIGKILL)
    if os.getppid() != parent:
        os._exit(_NOT_RUN)  # it died before the request reached the kernel
    os.umask(spec.umask)
    surroundings.take_priority(spec)
    limits = surroundings.ready_limits(spec)
    for source, target in ((streams.stdin, 0), (streams.stdout, 1), (streams.stderr, 2)):
        os.dup2(source, target)
    if not os.read(go, 1):
        os._exit(_NOT_RUN)  # the shim died before it let us go
    surroundings.enter(spec, step)
    step[0] = b"limits"
    surroundings.set_limits(limits)
    step[0] = b"exec"
    os.execvpe(argv[0], argv, spec.environment)  # noqa: S606 - no shell: that is the point
