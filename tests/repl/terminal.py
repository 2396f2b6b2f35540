# A program on a pseudo-terminal, and the screen that its user sees: what tests of the console share.
import os, re, time
import pexpect, pyte

WIDTH, HEIGHT, PATIENCE = 120, 40, 60  # seconds; machines that do other things, too, are slow


class Terminal:
    def __init__(self, command, width=WIDTH, height=HEIGHT, env=None, cwd=None):
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        full = {k: v for k, v in os.environ.items() if not k.startswith(("TEGULA", "XDG", "NO_COLOR", "VISUAL", "EDITOR", "EDIT_"))}
        full.update({"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(env or {})})
        self.child = pexpect.spawn(command[0], command[1:], dimensions=(height, width), env=full, cwd=cwd, timeout=PATIENCE)
        self.child.delaybeforesend = None

    def pump(self, seconds):
        try:
            data = self.child.read_nonblocking(1 << 16, timeout=seconds)
        except pexpect.TIMEOUT:
            return False
        except pexpect.EOF:
            return None
        self.raw += data
        self.stream.feed(data)
        return True

    def keys(self, text):
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        for at in range(0, len(data), 512):  # the terminal's queue is short
            self.child.send(data[at:at + 512])
            if len(data) > 512:
                self.pump(0.01)

    def lines(self):
        """The rows with text on them, without blanks at their ends."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def cursor(self):
        return self.screen.cursor.y, self.screen.cursor.x

    def until(self, holds, what):
        """Waits for the screen to be as `holds` says."""
        end = time.time() + PATIENCE
        while not holds():
            if self.pump(0.05) is None and not holds():
                raise AssertionError(f"{what()}\nended; the screen:\n" + "\n".join(self.lines()))
            if time.time() > end:
                raise AssertionError(f"{what()}\nthe screen:\n" + "\n".join(self.lines()) + f"\ncursor {self.cursor()}")

    def shows(self, rows, cursor=None):
        """The last rows of the screen are these, and the cursor is in this row of them and column."""
        rows = rows if isinstance(rows, list) else [rows]

        def holds():
            last = self.lines()[-len(rows):]
            first = len(self.lines()) - len(rows)
            return last == rows and (cursor is None or self.cursor() == (first + cursor[0], cursor[1]))

        self.until(holds, lambda: f"expected {rows} {cursor}")

    def sees(self, pattern):
        self.until(lambda: re.search(pattern, "\n".join(self.lines())), lambda: f"expected {pattern}")

    def resize(self, width, height):
        self.screen.resize(height, width)
        self.child.setwinsize(height, width)

    def ends(self):
        end = time.time() + PATIENCE
        while self.pump(0.05) is not None:
            assert time.time() < end, "it does not end"
        self.child.close()
        return self.child.exitstatus
