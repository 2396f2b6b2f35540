#!/usr/bin/env python3
# replay.py TEGULA ROOT: the language server as an editor meets it: transcripts, positions of both encodings, order and cancellation, hostile input.
# Results are validated by lsprotocol where it is installed, and in any case by the shapes of the protocol that are written down here.
import copy, json, os, pathlib, random, re, shutil, subprocess, sys, tempfile, time

tegula, root = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "tests/lsp"))
from client import Client

os.environ["TEGULA_CACHE_DIR"] = cache = tempfile.mkdtemp(prefix="tegula_lsp_")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
try:
    from lsprotocol import converters, types
except ImportError:
    converters = types = None

# ---- shapes ----

POSITION = {"line": int, "character": int}
RANGE = {"start": POSITION, "end": POSITION}
LOCATION = {"uri": str, "range": RANGE}
EDIT = {"range": RANGE, "newText": str}
MARKUP = {"kind": str, "value": str}
DIAGNOSTIC = {"range": RANGE, "severity": int, "code": str, "source": str, "message": str,
              "relatedInformation?": [{"location": LOCATION, "message": str}], "codeDescription?": {"href": str}}
CALL_ITEM = {"name": str, "kind": int, "detail?": str, "uri": str, "range": RANGE, "selectionRange": RANGE, "data?": object}
SYMBOL = {"name": str, "kind": int, "detail?": str, "range": RANGE, "selectionRange": RANGE}
SYMBOL["children?"] = [SYMBOL]
SELECTION = {"range": RANGE}
SELECTION["parent?"] = SELECTION
COMMAND = {"title": str, "command": str, "arguments?": [object]}
SHAPES = {
    "initialize": {"capabilities": object, "serverInfo?": object},
    "shutdown": None,
    "textDocument/hover": (None, {"contents": MARKUP, "range?": RANGE}),
    "textDocument/completion": {"isIncomplete": bool, "items": [{"label": str, "kind?": int, "detail?": str, "sortText?": str, "filterText?": str,
                                                                 "textEdit": EDIT, "additionalTextEdits?": [EDIT], "data?": object}]},
    "completionItem/resolve": {"label": str, "documentation?": MARKUP, "*": object},
    "textDocument/signatureHelp": (None, {"signatures": [{"label": str, "documentation?": MARKUP, "parameters": [{"label": [int]}]}],
                                          "activeSignature": int, "activeParameter": int}),
    "textDocument/definition": [LOCATION],
    "textDocument/declaration": [LOCATION],
    "textDocument/references": [LOCATION],
    "textDocument/documentHighlight": [{"range": RANGE, "kind": int}],
    "textDocument/prepareRename": {"range": RANGE, "placeholder": str},
    "textDocument/rename": {"changes": object},
    "textDocument/documentSymbol": [SYMBOL],
    "workspace/symbol": [{"name": str, "kind": int, "location": LOCATION}],
    "textDocument/prepareCallHierarchy": (None, [CALL_ITEM]),
    "callHierarchy/incomingCalls": [{"from": CALL_ITEM, "fromRanges": [RANGE]}],
    "callHierarchy/outgoingCalls": [{"to": CALL_ITEM, "fromRanges": [RANGE]}],
    "textDocument/documentLink": [{"range": RANGE, "target": str}],
    "textDocument/foldingRange": [{"startLine": int, "endLine": int, "kind": str}],
    "textDocument/selectionRange": [SELECTION],
    "textDocument/inlayHint": [{"position": POSITION, "label": str, "kind?": int}],
    "textDocument/diagnostic": {"kind": str, "items": [DIAGNOSTIC]},
    "textDocument/codeAction": [{"title": str, "kind": str, "isPreferred?": bool, "diagnostics?": [DIAGNOSTIC], "edit": {"changes": object}}],
    "textDocument/formatting": [EDIT],
    "textDocument/rangeFormatting": [EDIT],
    "textDocument/onTypeFormatting": [EDIT],
    "textDocument/semanticTokens/full": {"resultId": str, "data": [int]},
    "textDocument/semanticTokens/full/delta": {"resultId": str, "edits": [{"start": int, "deleteCount": int, "data": [int]}]},
    "textDocument/semanticTokens/range": {"data": [int]},
    "textDocument/codeLens": [{"range": RANGE, "command?": COMMAND, "data?": object}],
    "codeLens/resolve": {"range": RANGE, "command": COMMAND, "data?": object},
    "workspace/executeCommand": {"results": [object], "passed": bool, "printed": str, "message?": str},
    "tegula/artifact": {"text": str, "lineMap": [(None, int)]},
    "tegula/viz": ({"text": str}, {"svg": str}, {"html": str}, {"json": object}),
    "tegula/run": ({"results": [{"name": str, "passed": bool, "seconds": (int, float), "message?": str, "machines?": str, "metrics?": object}], "passed": bool,
                    "printed": str, "message?": str},
                   {"kernel": str, "passed": bool, "seconds": (int, float), "outputs": [{"name": str, "type": str, "layout": str, "extents": [int], "text": str}],
                    "grid": object, "printed": str}),
}
CLASSES = {"textDocument/hover": "HoverResponse", "textDocument/completion": "CompletionResponse", "textDocument/signatureHelp": "SignatureHelpResponse",
           "textDocument/definition": "DefinitionResponse", "textDocument/references": "ReferencesResponse", "initialize": "InitializeResponse",
           "textDocument/documentHighlight": "DocumentHighlightResponse", "textDocument/rename": "RenameResponse",
           "textDocument/documentSymbol": "DocumentSymbolResponse", "textDocument/prepareCallHierarchy": "CallHierarchyPrepareResponse",
           "callHierarchy/incomingCalls": "CallHierarchyIncomingCallsResponse", "callHierarchy/outgoingCalls": "CallHierarchyOutgoingCallsResponse",
           "textDocument/documentLink": "DocumentLinkResponse", "textDocument/foldingRange": "FoldingRangeResponse",
           "textDocument/selectionRange": "SelectionRangeResponse", "textDocument/inlayHint": "InlayHintResponse",
           "textDocument/diagnostic": "DocumentDiagnosticResponse", "textDocument/codeAction": "CodeActionResponse",
           "textDocument/formatting": "DocumentFormattingResponse", "textDocument/semanticTokens/full": "SemanticTokensResponse",
           "textDocument/codeLens": "CodeLensResponse", "workspace/symbol": "WorkspaceSymbolResponse"}


def misfit(value, shape, where="result"):
    """What is wrong with a value, or None."""
    if shape is object:
        return None
    if shape is None:
        return None if value is None else f"{where} is not null"
    if isinstance(shape, tuple):
        return None if any(misfit(value, s, where) is None for s in shape) else f"{where}: {value!r:.100} fits none"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where} is no list"
        return next((m for i, v in enumerate(value) if (m := misfit(v, shape[0], f"{where}[{i}]"))), None)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{where} is no object"
        known = {name.rstrip("?"): s for name, s in shape.items()}
        for name in shape:
            if name != "*" and not name.endswith("?") and name not in value:
                return f"{where} lacks {name}"
        for name, v in value.items():
            if name not in known and "*" not in known:
                return f"{where} has {name}"
            if name in known and (m := misfit(v, known[name], f"{where}.{name}")):
                return m
        return None
    good = isinstance(value, shape) and not (shape is int and isinstance(value, bool)) and not (shape is int and value < 0)
    return None if good else f"{where} is {value!r:.60}"


class Checked(Client):
    def ask(self, method, params):
        number = self.begin(method, params)
        message = self.reply_to(number)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        problem = misfit(message["result"], SHAPES[method])
        assert not problem, (method, problem)
        if converters and method in CLASSES:
            converters.get_converter().structure(message, getattr(types, CLASSES[method]))
        return message["result"]


def position(text, words, more=0, encoding="utf-16"):
    at = text.index(words) + more
    line = text[text.rfind("\n", 0, at) + 1:at]
    return {"line": text.count("\n", 0, at), "character": len(line.encode("utf-16-le")) // 2 if encoding == "utf-16" else len(line.encode())}


# ---- transcripts ----
# A file is {"text", "steps": [[method, {"at": "words" or ["words", bytes]} and further parameters, what must be in the answer as JSON text ..]]}.

def replay(path):
    script = json.loads(path.read_text())
    client, uri, text = Checked(tegula), "file:///nowhere/" + path.stem + ".tile", script["text"]
    client.open(uri, text)
    for method, params, *wanted in script["steps"]:
        params = dict(params)
        if method == "change":
            at, end = position(text, params["at"]), position(text, params["at"], len(params["at"]))
            client.change(uri, [{"range": {"start": at, "end": end}, "text": params["text"]}])
            text = text.replace(params["at"], params["text"], 1)
            continue
        if method == "published":
            answer = client.published(uri, client.versions[uri])
        else:
            params["textDocument"] = {"uri": uri}
            at = params.pop("at", None)
            if at is not None:
                params["position"] = position(text, *([at] if isinstance(at, str) else at))
            if "around" in params:
                words = params.pop("around")
                params["range"] = {"start": position(text, words), "end": position(text, words, len(words))}
            fails = params.pop("fails", False)
            answer = client.fails(method, params) if fails else client.ask(method, params)
        shown = json.dumps(answer, ensure_ascii=False, sort_keys=True)
        for part in wanted:
            absent = part.startswith("!")
            assert (part.lstrip("!") in shown) != absent, f"{path.name}: {method} {params}: {part}\n{shown}"
    client.end()


def encodings():
    text = "// 😀é\n/* 😀 */ fn f(v: f32) -> f32 { /* é😀 */ let wide = v + v; return wide; }\n"
    for encoding in ("utf-16", "utf-8"):
        client, uri = Checked(tegula, encoding), "file:///nowhere/wide.tile"
        assert client.answer["capabilities"]["positionEncoding"] == encoding
        client.open(uri, text)
        assert client.published(uri) == []
        places = client.ask("textDocument/references", {"textDocument": {"uri": uri}, "position": position(text, "wide;", 0, encoding), "context": {"includeDeclaration": True}})
        starts = [p["range"]["start"] for p in places]
        assert starts == [position(text, "wide = v", 0, encoding), position(text, "wide;", 0, encoding)], starts
        # An edit behind an emoji, one within a pair, which rounds down to its beginning, and one that ends behind its line.
        start = position(text, "wide = v", 0, encoding)
        client.change(uri, [{"range": {"start": start, "end": {"line": 1, "character": start["character"] + 4}}, "text": "😀x"}])
        client.change(uri, [{"range": {"start": start, "end": {"line": 1, "character": start["character"] + (3 if encoding == "utf-16" else 5)}}, "text": "wide"}])
        client.change(uri, [{"range": {"start": {"line": 1, "character": 100000}, "end": {"line": 1, "character": 100000}}, "text": " // end"}])
        found = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        assert found["items"] == [], found
        data = client.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}})["data"]
        assert data[:5] == [0, 0, 6 if encoding == "utf-16" else 9, 9, 0], data[:5]
        client.end()


def order():
    """Requests see the text that came before them; what is cancelled is answered all the same."""
    client, uri = Checked(tegula), "file:///nowhere/order.tile"
    assert client.fails("textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 0}})["code"] == -32602
    client.open(uri, "const A: int = 1;\n")
    first = client.begin("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    client.change(uri, [{"text": "const B: int = 1;\nconst C: int = 2;\n"}])
    second = client.begin("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    client.tell("$/cancelRequest", {"id": second + 1})
    third = client.begin("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert [s["name"] for s in client.reply_to(first)["result"]] == ["A"]
    assert [s["name"] for s in client.reply_to(second)["result"]] == ["B", "C"]
    message = client.reply_to(third)
    assert message.get("error", {}).get("code") == -32800 or "result" in message, message
    client.end()


RUNS = """kernel scaled<BLOCK: int = 64>(x: tensor<f32>[N], s: f32, out y: tensor<f32>[N]) grid [cdiv(N, BLOCK)] {
    let n = program_id(0) * BLOCK;
    y[n +: BLOCK] = x[n +: BLOCK] * s;
}

kernel counts(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [N] {
    var sum = x[program_id(0)];
    for i in 0 .. 1000000000 { sum = sum * 0.5 + 1.0; }
    y[program_id(0)] = sum;
}

test "prints" {
    let y = empty<f32>[5];
    scaled(arange<f32>[5](), 2.0, y);
    print("Content-Length: {}", y);
    assert(y == arange<f32>[5]() * 2.0);
}

test "fails" { assert(1 == 2); }

test "is long" {
    let y = empty<f32>[3];
    counts(arange<f32>[3](), y);
}

bench "scaled" flops 5 {
    let y = empty<f32>[5];
    scaled(arange<f32>[5](), 2.0, y);
}
"""


def runs():
    """Tests, benches and kernels of a text that is on no disk; what they print is not the protocol's; a run that is cancelled is answered at once."""
    client, uri = Checked(tegula), "file:///nowhere/runs.tile"
    client.open(uri, RUNS)
    answer = client.ask("tegula/run", {"uri": uri, "test": "print", "machine": "interp", "workDoneToken": "token"})
    assert answer["passed"] and [r["name"] for r in answer["results"]] == ["prints"] and answer["printed"].startswith("Content-Length: "), answer
    kinds = [m["params"]["value"]["kind"] for m in client.received if m.get("method") == "$/progress"]
    assert kinds[0] == "begin" and kinds[-1] == "end" and "report" in kinds and client.received[-1]["result"] == answer, kinds
    answer = client.ask("tegula/run", {"uri": uri, "test": "fails", "machine": "interp"})
    assert not answer["passed"] and "message" in answer["results"][0], answer
    answer = client.ask("tegula/run", {"uri": uri, "bench": "scaled", "machine": "interp"})
    assert answer["passed"] and "flops" in answer["results"][0]["metrics"], answer
    answer = client.ask("tegula/run", {"uri": uri, "kernel": "scaled", "set": {"BLOCK": 2}, "args": {"x": [1, 2.5, -3], "s": 2}, "machine": "interp"})
    assert answer["outputs"] == [{"name": "y", "type": "f32", "layout": "row", "extents": [3], "text": answer["outputs"][0]["text"]}], answer
    assert re.findall(r"-?[\d.]+", answer["outputs"][0]["text"]) == ["2", "5", "-6"] and answer["grid"][0] == 2, answer
    for wrong, code in (({"kernel": "missing"}, -32803), ({"kernel": "scaled", "args": {"x": {"a": 1}}}, -32602), ({"kernel": "scaled", "args": {"x": [[1], [2, 3]]}}, -32602),
                        ({"kernel": "scaled", "args": {"x": [1]}}, -32803), ({}, -32602), ({"test": "", "kernel": "scaled"}, -32602), ({"kernel": "scaled", "args": 3}, -32602),
                        ({"test": "prints", "machine": "abacus"}, None)):
        message = client.reply_to(client.begin("tegula/run", {"uri": uri, "machine": "interp", **wrong}))
        assert message.get("error", {}).get("code") == code, (wrong, message)
    assert client.fails("tegula/run", {"uri": "file:///other.tile", "test": ""})["code"] == -32602
    # While something runs, other requests are answered, and so is the end of it.
    long = client.begin("tegula/run", {"uri": uri, "test": "is long", "machine": "interp", "workDoneToken": 7})
    waits = client.begin("tegula/run", {"uri": uri, "bench": "scaled", "machine": "interp"})  # measured: alone
    assert client.ask("textDocument/hover", {"textDocument": {"uri": uri}, "position": position(RUNS, "counts")})
    client.change(uri, [{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "// more\n"}])
    assert client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert not any(m.get("id") in (long, waits) and "method" not in m for m in client.received)
    client.tell("$/cancelRequest", {"id": long})
    assert client.reply_to(long)["error"]["code"] == -32800
    assert [m["params"]["value"]["kind"] for m in client.received if m.get("method") == "$/progress" and m["params"]["token"] == 7][-1] == "end"
    assert client.reply_to(waits)["result"]["passed"]
    client.end()


def lines():
    """The lines of stages are those of the source that they come from, and of no other file."""
    text = "import std.nn;\nkernel k(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, 64)] {\n    let n = program_id(0) * 64;\n\n    let v = nn.gelu(x[n +: 64]) * 3.25;\n\n    y[n +: 64] = v + 1.5;\n}\n"
    client, uri = Checked(tegula), "file:///nowhere/lines.tile"
    client.open(uri, text)
    for kind in ("ir", "ir:final", "ir:gpu", "cuda@sm_80", "ptx", "llvm"):
        message = client.reply_to(client.begin("tegula/artifact", {"uri": uri, "kernel": "k", "kind": kind}))
        if "error" in message and kind in ("ptx", "llvm"):  # machines that are not here
            continue
        answer = message["result"]
        rows = answer["text"].split("\n")[:len(answer["lineMap"])]
        assert len(rows) >= answer["text"].count("\n") and set(answer["lineMap"]) <= {None, 1, 2, 4, 6, 7}, (kind, answer["lineMap"])
        if kind == "llvm":
            continue
        assert 4 in answer["lineMap"] and 6 in answer["lineMap"], (kind, answer["lineMap"])
        for number, line in (("3.25", 4), ("1.5", 6)):
            places = [at for row, at in zip(rows, answer["lineMap"]) if re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", row)]
            assert places == [line] * len(places) and (places or kind == "ptx"), (kind, number, places)
    client.end()


def refreshes():
    """Clients that ask for diagnostics and hints themselves are told when to ask again."""
    folder = tempfile.mkdtemp(prefix="tegula_lsp_refresh_")
    files = {"a": 'import "b.tile" as b;\nfn g(v: f32) -> f32 { let w = b.double(v); return w; }\n', "b": "fn double(v: f32) -> f32 { return v + v; }\n"}
    for name, text in files.items():
        pathlib.Path(folder, name + ".tile").write_text(text)
    told = {"refreshSupport": True}
    client = Checked(tegula, folder=folder, capabilities={"textDocument": {"diagnostic": {}}, "workspace": {"diagnostics": told, "inlayHint": told, "semanticTokens": told}})
    uris = {name: f"file://{folder}/{name}.tile" for name in files}
    for name, text in files.items():
        client.open(uris[name], text)
    pull = lambda name: client.ask("textDocument/diagnostic", {"textDocument": {"uri": uris[name]}})["items"]

    def wait_for(*methods):
        methods, ids = set(methods), []
        while methods:
            message = client.next()
            assert message.get("method") != "workspace/codeLens/refresh", "nobody has announced that"
            if message.get("method") in methods:
                methods.discard(message["method"])
                ids.append(message["id"])
        for number in ids:
            client.send({"jsonrpc": "2.0", "id": number, "result": None})

    assert pull("a") == [] and pull("b") == []
    client.change(uris["b"], [{"text": "fn double(v: f32, w: f32) -> f32 { return v + w; }\n"}])
    wait_for("workspace/diagnostic/refresh", "workspace/inlayHint/refresh")
    assert [d["code"] for d in pull("a")] == ["T0204"]
    client.tell("workspace/didChangeConfiguration", {"settings": {"tegula": {"hints": False}}})
    wait_for("workspace/inlayHint/refresh", "workspace/semanticTokens/refresh")
    client.end()


def editor():
    """Neovim's client, where it is installed: attaches, and shows what is wrong."""
    nvim = shutil.which("nvim")
    if not nvim:
        return print("nvim is not here")
    folder = tempfile.mkdtemp(prefix="tegula_lsp_nvim_")
    pathlib.Path(folder, "a.tile").write_text("fn f(v: f32) -> f16 { return v; }\n")
    pathlib.Path(folder, "init.lua").write_text(f"""
local good, why = pcall(function()
vim.cmd('edit {folder}/a.tile')
vim.api.nvim_win_set_cursor(0, {{1, 5}})
local id = vim.lsp.start_client({{name = 'tegula', cmd = {{'{tegula}', 'lsp'}}, root_dir = '{folder}'}})
vim.lsp.buf_attach_client(0, id)
vim.wait(20000, function() return #vim.diagnostic.get(0) > 0 end, 50)
local out = {{}}
for _, d in ipairs(vim.diagnostic.get(0)) do table.insert(out, d.code .. ' ' .. d.lnum) end
local answers = vim.lsp.buf_request_sync(0, 'textDocument/hover', vim.lsp.util.make_position_params(), 20000)
table.insert(out, answers[id].result.contents.kind)
vim.fn.writefile(out, '{folder}/out')
end)
if not good then vim.fn.writefile({{why}}, '{folder}/out') end
vim.cmd('qall!')
""")
    env = {**os.environ, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
    subprocess.run([nvim, "--headless", "-u", f"{folder}/init.lua"], env=env, timeout=60, capture_output=True, check=True)
    shown = pathlib.Path(folder, "out").read_text().split("\n")
    assert shown[:2] == ["T0301 0", "markdown"], shown


def library():
    """The client of PyPI's pygls, where it is installed."""
    try:
        from pygls.lsp.client import BaseLanguageClient
    except ImportError:
        return print("pygls is not here")
    import asyncio

    async def session():
        client = BaseLanguageClient("test", "1")
        published = asyncio.get_running_loop().create_future()
        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: published.done() or published.set_result(params))
        await client.start_io(tegula, "lsp")
        await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
        client.initialized(types.InitializedParams())
        uri, text = "file:///nowhere/pygls.tile", "fn f(v: f32) -> f16 { return v; }\n"
        client.text_document_did_open(types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "tile", 1, text)))
        assert [d.code for d in (await asyncio.wait_for(published, 30)).diagnostics] == ["T0301"]
        here, start = types.TextDocumentIdentifier(uri), types.Position(0, 29)
        found = await client.text_document_code_action_async(types.CodeActionParams(here, types.Range(start, start), types.CodeActionContext([])))
        assert "cast<f16>" in found[0].title, found
        assert (await client.text_document_hover_async(types.HoverParams(here, start))).contents.kind == types.MarkupKind.Markdown
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()

    asyncio.run(session())


# ---- hostile input ----

def hostile(count):
    """Random and malformed messages of all kinds: each request is answered, none ends the server."""
    rng = random.Random(11)
    uri = "file:///nowhere/h.tile"
    methods = [m for m in SHAPES if m not in ("initialize", "shutdown", "workspace/executeCommand", "tegula/artifact", "codeLens/resolve")] + ["nonsense", "", "$/x"]
    values = [None, True, -1, 0, 1, 2**31, 2**63, 1e300, "", "x", "file:///", [], {}, [None], {"line": 0, "character": 0}, {"line": 10**9, "character": 10**9},
              {"uri": uri}, {"uri": 3}, {"start": {"line": 0, "character": 5}, "end": {"line": 0, "character": 1}}, [[[[]]]]]
    names = ["textDocument", "position", "range", "positions", "context", "newName", "query", "item", "data", "contentChanges", "previousResultId", "ch", "label",
             "uri", "kernel", "kind", "what", "set", "args", "of", "format", "width", "machine", "arch", "test", "bench", "workDoneToken"]
    good = {"textDocument": {"uri": uri}, "position": {"line": 1, "character": 3}, "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}},
            "context": {"diagnostics": []}, "positions": [{"line": 0, "character": 2}], "newName": "q", "query": "f",
            "uri": uri, "kind": "bits", "what": "u4[3]", "test": "none", "machine": "interp"}
    client = Client(tegula)
    client.open(uri, "fn f(v: f32) -> f32 { return v; }\n")
    asked, data = set(), bytearray()
    for i in range(count):
        params = copy.deepcopy(good) if rng.random() < 0.5 else {}
        for _ in range(rng.randrange(3)):
            params[rng.choice(names)] = copy.deepcopy(rng.choice(values))
        kind = rng.random()
        message = {"jsonrpc": "2.0", "method": rng.choice(methods), "params": params if rng.random() < 0.95 else copy.deepcopy(rng.choice(values))}
        if kind < 0.02:
            data += bytes(rng.randrange(256) for _ in range(rng.randrange(30))) + b"\n\n\n"
            continue
        if kind < 0.04:
            text = bytes(rng.choice(b'{}[]",:x\\\x00\xff') for _ in range(rng.randrange(40)))
            data += b"Content-Length: %d\r\n\r\n" % len(text) + text
            continue
        if kind < 0.05:
            data += rng.choice([b"Content-Length: -5\r\n\r\n", b"Content-Length: x\r\n\r\n", b"Content-Type: a\r\n\r\n", b"Content-Length: 99999999999999999999\r\n\r\n",
                                b"[" * 300 + b"\r\n\r\n", b"Content-Length: 600\r\n\r\n" + b"[" * 300 + b"]" * 300])
            continue
        if kind < 0.3:
            message["method"] = rng.choice(["textDocument/didChange", "textDocument/didOpen", "textDocument/didClose", "$/cancelRequest", "workspace/didChangeConfiguration"])
            if message["method"] == "textDocument/didChange" and isinstance(message["params"], dict):
                message["params"]["contentChanges"] = rng.choice([[{"text": "fn f(v: f32) -> f32 { return v; }\n"}], [{"text": rng.choice("{};x\n ")  , "range": {"start": {"line": rng.randrange(4), "character": rng.randrange(9)}, "end": {"line": rng.randrange(4), "character": rng.randrange(9)}}}], copy.deepcopy(rng.choice(values))])
            if message["method"] == "textDocument/didClose" and rng.random() < 0.9:
                continue
        elif kind < 0.95:
            message["id"] = i + 1000
            asked.add(i + 1000)
        text = json.dumps(message).encode()
        data += b"Content-Length: %d\r\n\r\n" % len(text) + text
    client.send_bytes(b"")
    import threading
    threading.Thread(target=lambda: client.send_bytes(bytes(data) + b"\r\n\r\n"), daemon=True).start()
    while asked:
        message = client.messages.get(timeout=120)
        assert message is not None, "the server has ended"
        if "method" not in message:
            asked.discard(message.get("id"))
    client.end()


def before_and_after():
    client = Client(tegula, start=False)
    assert client.fails("textDocument/hover", {})["code"] == -32002
    client.ask("initialize", {"capabilities": {}})
    assert client.fails("initialize", {"capabilities": {}})["code"] == -32600
    assert client.fails("no/such", {})["code"] == -32601
    client.ask("shutdown", None)
    assert client.fails("textDocument/hover", {})["code"] == -32600
    client.tell("exit", None)
    assert client.process.wait(timeout=30) == 0
    client = Client(tegula)
    client.process.stdin.close()
    assert client.process.wait(timeout=30) == 1, "an end of input without `shutdown`"


def files():
    folder = tempfile.mkdtemp(prefix="tegula_lsp_files_")
    os.makedirs(folder + "/lib")
    pathlib.Path(folder, "tegula.toml").write_text('import_root = "lib"\nhints = false\n')
    pathlib.Path(folder, "lib/b.tile").write_text("/// Twice.\nfn double(v: f32) -> f32 { return v + v; }\n")
    user = 'import "b.tile" as b;\nfn g(v: f32) -> f32 { return b.double(v); }\n'
    pathlib.Path(folder, "a.tile").write_text(user)
    client, uri = Checked(tegula, folder=folder), f"file://{folder}/a.tile"
    client.open(uri, user)
    assert client.published(uri) == []
    here = {"textDocument": {"uri": uri}, "position": position(user, "double")}
    assert client.ask("textDocument/definition", here)[0]["uri"] == f"file://{folder}/lib/b.tile"
    assert "Twice." in client.ask("textDocument/hover", here)["contents"]["value"]
    assert set(client.ask("textDocument/rename", {**here, "newName": "two"})["changes"]) == {uri, f"file://{folder}/lib/b.tile"}
    assert [s["name"] for s in client.ask("workspace/symbol", {"query": "dbl"})] == ["double"]
    assert client.ask("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 0}}}) == []
    # What another program writes is seen.
    pathlib.Path(folder, "lib/b.tile").write_text("fn other(v: f32) -> f32 { return v + v; }\n")
    client.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": f"file://{folder}/lib/b.tile", "type": 2}]})
    assert "double" in client.published(uri)[0]["message"]
    client.end()


def speed():
    """Figures for a file of 10,000 lines, through the protocol; limits leave room for busy machines."""
    text = "".join(f"kernel k{i}(x: tensor<f32>[N], s: f32, out y: tensor<f32>[N]) grid [cdiv(N, 256)] {{\n    let n = program_id(0) * 256;\n"
                   f"    let a = x[n +: 256];\n    var acc = zeros<f32>[256];\n    for i in 0 .. 4 {{\n        acc += a * s;\n    }}\n    y[n +: 256] = acc;\n}}\n\n" for i in range(1000))
    client, uri = Client(tegula), "file:///nowhere/large.tile"
    client.open(uri, text)
    client.published(uri)
    times, answers = [], []
    ticks = lambda: sum(map(int, pathlib.Path(f"/proc/{client.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    used = ticks()
    for i in range(12):
        line = 10 * (i * 80) + 6
        start = time.time()
        client.change(uri, [{"range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 0}}, "text": f"acc += missing{i};"}])
        client.published(uri, client.versions[uri])
        times.append(time.time() - start)
        client.change(uri, [{"range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": len(f"acc += missing{i};")}}, "text": "ac"}])
        start = time.time()
        client.ask("textDocument/completion", {"textDocument": {"uri": uri}, "position": {"line": line, "character": 2}})
        answers.append(time.time() - start)
        client.change(uri, [{"range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 2}}, "text": ""}])
        client.published(uri, client.versions[uri])
    memory = int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{client.process.pid}/status").read_text()).group(1)) // 1024
    used = (ticks() - used) / os.sysconf("SC_CLK_TCK") / len(times)
    client.end()
    times.sort(), answers.sort()
    print(f"{text.count(chr(10))} lines: diagnostics {1e3 * times[6]:.0f} ms after an edit, of which 150 ms quiet; completion {1e3 * answers[6]:.0f} ms (median), {1e3 * answers[-1]:.0f} ms at most; {1e3 * used:.0f} ms of one core for three edits, two diagnostics and a completion; {memory} MiB")
    assert used < 2 and memory < 400, (used, memory)  # not the time of the wall: others may keep the machine busy


if __name__ == "__main__":
    which = sys.argv[3:] or ["transcripts", "encodings", "order", "before_and_after", "files", "runs", "lines", "refreshes", "editor", "library", "hostile", "speed"]
    print("validated by lsprotocol" if converters else "lsprotocol is not installed: validated by the shapes in this file")
    for name in which:
        start = time.time()
        if name == "transcripts":
            for path in sorted((root / "tests/lsp").glob("*.json")):
                replay(path)
        elif name.startswith("hostile"):
            hostile(int(name.partition("=")[2] or 20000))
        else:
            globals()[name]()
        print(f"{name}: {time.time() - start:.1f} s")
