# A client of the language server for tests: speaks to `tegula lsp` through pipes, one message at a time.
import json, os, queue, subprocess, threading


class Client:
    def __init__(self, command, encoding="utf-16", folder=None, capabilities=None, start=True):
        self.process = subprocess.Popen([command, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.messages, self.number, self.received = queue.Queue(), 0, []
        threading.Thread(target=self.listen, daemon=True).start()
        self.versions = {}
        if start:
            capabilities = capabilities or {}
            capabilities.setdefault("general", {})["positionEncodings"] = [encoding]
            self.answer = self.ask("initialize", {"processId": None, "rootUri": folder and "file://" + folder, "capabilities": capabilities})
            self.tell("initialized", {})

    def listen(self):
        out = self.process.stdout
        while True:
            length = None
            while True:
                line = out.readline()
                if not line:
                    self.messages.put(None)
                    return
                if line in (b"\r\n", b"\n"):
                    break
                name, value = line.decode().split(":")
                if name.lower() == "content-length":
                    length = int(value)
            self.messages.put(json.loads(out.read(length)))

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        data = json.dumps(message).encode()
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(data) + data)

    def tell(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def begin(self, method, params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return self.number

    def next(self, timeout=60):
        message = self.messages.get(timeout=timeout)
        assert message is not None, "the server has ended"
        self.received.append(message)
        return message

    def reply_to(self, number):
        while True:
            message = self.next()
            if message.get("id") == number and "method" not in message:
                return message

    def ask(self, method, params):
        """The result; raises with what an error says."""
        message = self.reply_to(self.begin(method, params))
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def fails(self, method, params):
        message = self.reply_to(self.begin(method, params))
        assert "error" in message, (method, message)
        return message["error"]

    def open(self, uri, text):
        self.versions[uri] = 1
        self.tell("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "tile", "version": 1, "text": text}})

    def change(self, uri, changes):
        self.versions[uri] += 1
        self.tell("textDocument/didChange", {"textDocument": {"uri": uri, "version": self.versions[uri]}, "contentChanges": changes})

    def published(self, uri, version=None):
        """The diagnostics that are pushed for a document (of a version)."""
        while True:
            message = self.next()
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                if version is None or message["params"].get("version") == version:
                    return message["params"]["diagnostics"]

    def end(self):
        self.ask("shutdown", None)
        self.tell("exit", None)
        code = self.process.wait(timeout=30)
        assert code == 0, code
