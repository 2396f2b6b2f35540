"""The Jupyter kernel: cells are inputs of `tegula repl`.

    python -m tegula.kernel install [--user | --prefix DIR] [--command PATH] [-- OPTION..]

writes the kernel specification; OPTION.. go to `tegula repl`, as `--machine cpu`. The command is the one named, else that of the environment variable
TEGULA, else `tegula` on PATH. It speaks lines of JSON (docs/repl.md, "Protocol"); this file turns them into Jupyter's messages and knows nothing of the
language. Needs ipykernel.
"""

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

from ipykernel.kernelbase import Kernel

_IMAGE = "image/svg+xml"


def command_path():
    """The `tegula` command; FileNotFoundError says where it was looked for."""
    named = os.environ.get("TEGULA")
    found = named or shutil.which("tegula")
    if not found:
        raise FileNotFoundError("there is no `tegula` on PATH; the environment variable TEGULA may name it")
    return found


class Console:
    """A running `tegula repl --json`."""

    def __init__(self, options):
        self._process = subprocess.Popen(
            [command_path(), "repl", "--json", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # an interrupt of the notebook goes to this process, which asks for one
        )
        self._events = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def _send(self, **request):
        self._number += 1
        self._process.stdin.write(json.dumps({"id": self._number, **request}) + "\n")
        self._process.stdin.flush()
        return self._number

    def ask(self, op, hear=lambda event: None, **fields):
        """The `done` event of a request, after `hear` got the others. A KeyboardInterrupt meanwhile ends what runs. EOFError: the console is gone."""
        try:
            number = self._send(op=op, **fields)
        except OSError as error:
            raise EOFError("the console has ended") from error
        while True:
            try:
                event = self._events.get()
            except KeyboardInterrupt:
                self._send(op="interrupt")
                continue
            if event is None:
                raise EOFError(f"the console has ended with code {self._process.wait()}")
            if event.get("id") != number:
                continue  # of an interrupt
            if event["event"] == "done":
                return event
            hear(event)

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _bytes_to(code, position):
    return len(code[:position].encode())


def _characters_to(code, position):
    return len(code.encode()[:position].decode(errors="ignore"))


class TegulaKernel(Kernel):
    """One console for each notebook."""

    implementation = "tegula"
    implementation_version = "0.1"
    banner = "Tegula: kernels over tiles. :help lists the commands."
    language_info = {"name": "tegula", "mimetype": "text/x-tegula", "file_extension": ".tile"}

    _options = json.loads(os.environ.get("TEGULA_KERNEL_OPTIONS", "[]"))
    _console = None

    def _ask(self, op, hear=lambda event: None, **fields):
        if self._console is None:
            self._console = Console(self._options)
        try:
            return self._console.ask(op, hear, **fields)
        except EOFError:
            self._console = None  # the next cell starts another one
            raise

    def _stream(self, name, text):
        self.send_response(self.iopub_socket, "stream", {"name": name, "text": text})

    def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_):
        errors = []

        def hear(event):
            text = event.get("text", "")
            kind = event["event"]
            if kind == "diagnostic":
                errors.append(event)
            if silent:
                return
            if kind == "value":
                content = {"execution_count": self.execution_count, "data": {"text/plain": text.rstrip("\n")}, "metadata": {}}
                self.send_response(self.iopub_socket, "execute_result", content)
            elif kind == "picture":
                data = {"text/plain": text.rstrip("\n")}
                if event.get("svg"):
                    data[_IMAGE] = event["svg"]
                self.send_response(self.iopub_socket, "display_data", {"data": data, "metadata": {}})
            elif kind == "print":
                self._stream("stdout", text)
            elif kind == "diagnostic":
                self._stream("stderr", text)

        reply = {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
        try:
            done = self._ask("eval", hear, text=code)
        except (EOFError, FileNotFoundError) as error:
            return self._failed(silent, type(error).__name__, str(error))
        if done["status"] == "ok":
            return reply
        if done["status"] == "cancelled":
            return self._failed(silent, "KeyboardInterrupt", "interrupted")
        first = next((e.get("diagnostic", {}) for e in errors if e.get("diagnostic", {}).get("level", "error") == "error"), {})
        return self._failed(silent, first.get("code") or "error", first.get("message", ""))

    def _failed(self, silent, name, value):
        content = {"ename": name, "evalue": value, "traceback": [f"{name}: {value}"]}
        if not silent:
            self.send_response(self.iopub_socket, "error", content)
        return {"status": "error", "execution_count": self.execution_count, **content}

    def do_complete(self, code, cursor_pos):
        nothing = {"status": "ok", "matches": [], "cursor_start": cursor_pos, "cursor_end": cursor_pos, "metadata": {}}
        try:
            result = self._ask("complete", text=code, pos=_bytes_to(code, cursor_pos)).get("result")
        except (EOFError, FileNotFoundError):
            return nothing
        if not result:
            return nothing
        candidates = result["candidates"]
        kinds = [{"text": c["text"], "type": c.get("kind", ""), "start": 0, "end": 0} for c in candidates]
        start, end = _characters_to(code, result["begin"]), _characters_to(code, result["end"])
        for kind in kinds:
            kind.update(start=start, end=end)
        return {
            "status": "ok",
            "matches": [c["text"] for c in candidates],
            "cursor_start": start,
            "cursor_end": end,
            "metadata": {"_jupyter_types_experimental": kinds},
        }

    def do_inspect(self, code, cursor_pos, detail_level=0, omit_sections=()):
        try:
            result = self._ask("inspect", text=code, pos=_bytes_to(code, cursor_pos)).get("result") or {}
        except (EOFError, FileNotFoundError):
            result = {}
        found = result.get("found")
        parts = [found.get(key) for key in ("signature", "type", "text", "doc")] if found else []
        text = "\n\n".join(part for part in parts if part)
        return {"status": "ok", "found": bool(text), "data": {"text/plain": text} if text else {}, "metadata": {}}

    def do_is_complete(self, code):
        try:
            result = self._ask("is_complete", text=code).get("result") or {}
        except (EOFError, FileNotFoundError):
            return {"status": "unknown"}
        return {"status": result.get("state", "unknown"), "indent": " " * int(result.get("indent", 0))}

    def do_shutdown(self, restart):
        if self._console is not None:
            self._console.close()
            self._console = None
        return {"status": "ok", "restart": restart}


def install(arguments):
    """Writes the kernel specification; returns its directory."""
    from jupyter_client.kernelspec import KernelSpecManager

    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [_root(), os.environ.get("PYTHONPATH", "")]))}
    if arguments.command:
        environment["TEGULA"] = os.path.abspath(arguments.command)
    if arguments.options:
        environment["TEGULA_KERNEL_OPTIONS"] = json.dumps(arguments.options)
    spec = {
        "argv": [sys.executable, "-m", "tegula.kernel", "-f", "{connection_file}"],
        "display_name": "Tegula",
        "language": "tegula",
        "interrupt_mode": "signal",
        "env": environment,
    }
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "kernel.json"), "w", encoding="utf-8") as out:
            json.dump(spec, out, indent=1)
        return KernelSpecManager().install_kernel_spec(folder, "tegula", user=arguments.user, prefix=arguments.prefix)


def _root():
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    if sys.argv[1:2] != ["install"]:
        from ipykernel.kernelapp import IPKernelApp

        IPKernelApp.launch_instance(kernel_class=TegulaKernel)
        return
    parser = argparse.ArgumentParser(prog="python -m tegula.kernel")
    parser.add_argument("task", choices=["install"])
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user; default: for the system")
    where.add_argument("--prefix", help="below this directory")
    parser.add_argument("--command", help="the tegula command that the kernel runs")
    own, behind = sys.argv[1:], []
    if "--" in own:
        behind, own = own[own.index("--") + 1 :], own[: own.index("--")]
    arguments = parser.parse_args(own)
    arguments.options = behind
    print("installed", install(arguments))


if __name__ == "__main__":
    main()
