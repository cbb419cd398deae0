"""While tasks wait for a sign-in or a program, look whether it is there, so that they continue without a command."""

from watchkeeper.app.sign_ins import SignIns
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked


class SignInLoop(Loop):
    """Looks at what tasks lack. While nothing is lacking, a tick is one read."""

    name = "sign_ins"

    def __init__(self, log: Log, every_s: float, poll_s: float, sign_ins: SignIns) -> None:
        """Look every `poll_s` while something is lacking."""
        super().__init__(log, every_s)
        self._poll_s = poll_s
        self._sign_ins = sign_ins

    def tick(self) -> Ticked:
        """Look at each lack once."""
        lacks = self._sign_ins.lacks()
        opened = 0
        for lack in lacks:
            look = self._sign_ins.check_again(lack)
            if look is not None:
                self.log.info("looked", account=lack.account_id, sign_in=look.sign_in.value, detail=look.detail)
                opened += 1
        return Ticked(worked=opened > 0, due_s=self._poll_s if lacks else None)
