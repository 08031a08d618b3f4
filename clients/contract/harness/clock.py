"""The clock of one process, by libfaketime."""

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


class Clock:
    """It is as far from the machine's as ``file`` says. The monotonic clock, by which timers go, is the machine's.

    The process reads the file each time that it looks at its clock, or each second if it ``is_cached``: a virtual
    machine that looks often runs many times slower without that.
    """

    def __init__(self, file, is_cached):
        self._file = file
        self._how = {"FAKETIME_CACHE_DURATION": "1"} if is_cached else {"FAKETIME_NO_CACHE": "1"}
        self._file.write_text("+0")

    @property
    def environment(self):
        """Of the process."""
        return {
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            **self._how,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset):
        """Sets it to ``offset`` from the machine's, in seconds: ``+3600``."""
        new = self._file.with_suffix(".new")
        new.write_text(offset)
        new.replace(self._file)
