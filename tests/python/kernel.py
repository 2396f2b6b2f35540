#!/usr/bin/env python3
"""The Jupyter kernel through nbclient: kernel.py TEGULA SOURCE_DIR. Skips (77) where nbclient or ipykernel is not installed."""
import os
import subprocess
import sys
import tempfile
import time

try:
    import ipykernel  # noqa: F401
    import nbformat
    from jupyter_client.manager import start_new_kernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TEGULA, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
KERNEL = """kernel twice(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [cdiv(N, 8)] {
    let n = program_id(0) * 8;
    y[n +: 8] = x[n +: 8] * 2.0;
}"""
ENDLESS = "kernel forever(out y: tensor<i32>[1]) { var i = 0; while i >= 0 { i = (i + 1) % 7; } y[0] = cast<i32>(i); }"


def expect(condition, what):
    if not condition:
        sys.exit(f"FAIL {what}")


def notebook(*cells):
    book = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "tegula", "display_name": "Tegula", "language": "tegula"}})
    book.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    NotebookClient(book, timeout=60, kernel_name="tegula").execute()
    return book.cells


def plain(cell):
    return "".join(out["data"]["text/plain"] for out in cell.outputs if out.output_type in ("execute_result", "display_data"))


def stream(cell, name="stdout"):
    return "".join(out["text"] for out in cell.outputs if out.output_type == "stream" and out["name"] == name)


def notebooks():
    cells = notebook(KERNEL, "let y = empty<f32>[3]; twice(arange<f32>[3], y);\ny", 'print("now {}", sum(y))', "ans[2]")
    expect(all(value in plain(cells[1]) for value in ("f32[3]", "4")), f"a value: {cells[1].outputs}")
    expect("now 6" in stream(cells[2]), f"a print: {cells[2].outputs}")
    expect("4" in plain(cells[3]), f"ans: {cells[3].outputs}")
    try:
        notebook("let x = nosuch(3)")
        sys.exit("FAIL an unknown name raises nothing")
    except CellExecutionError as error:
        expect(error.ename == "T0200", f"the code of a diagnostic: {error.ename} {error.evalue}")
    cells = notebook(KERNEL, "?twice", "cast<i3>(tile_of<f32>([1.0, -9.0]), overflow = sat)")
    expect("tensor<f32>[N]" in stream(cells[1]) + plain(cells[1]), f"a command: {cells[1].outputs}")
    expect("-4" in plain(cells[2]), f"three bits: {cells[2].outputs}")


def dialogue():
    manager, client = start_new_kernel(kernel_name="tegula", startup_timeout=60)
    try:
        def reply_to(number):
            while True:
                message = client.get_shell_msg(timeout=30)
                if message["parent_header"].get("msg_id") == number:
                    return message["content"]

        def ask(send, *args):
            return reply_to(send(*args))

        expect(ask(client.is_complete, "let x = (1,")["status"] == "incomplete", "an open bracket")
        expect(ask(client.is_complete, "let x = 1")["status"] == "complete", "a statement")
        ask(client.execute, KERNEL)
        text = 'let é = "ü"; twi'
        found = ask(client.complete, text)
        expect("twice" in found["matches"] and text[found["cursor_start"] : found["cursor_end"]] == "twi", f"a completion: {found}")
        found = ask(client.inspect, "twice", 2)
        expect(found["found"] and "tensor<f32>[N]" in found["data"]["text/plain"], f"an inspection: {found}")
        ask(client.execute, ENDLESS + " let kept = 41;")
        running = client.execute("forever(empty<i32>[1])", stop_on_error=False)
        time.sleep(0.5)
        start = time.monotonic()
        manager.interrupt_kernel()
        reply = reply_to(running)
        took = time.monotonic() - start
        expect(reply["status"] == "error" and reply["ename"] == "KeyboardInterrupt", f"an interrupt: {reply}")
        expect(took < 5, f"an interrupt takes {took:.1f} s")
        reply = ask(client.execute, "assert(kept == 41)")
        expect(reply["status"] == "ok", f"variables after an interrupt: {reply}")
        print(f"interrupt of an endless kernel: {took * 1e3:.0f} ms")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def main():
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, JUPYTER_DATA_DIR=home + "/data", JUPYTER_RUNTIME_DIR=home + "/run", IPYTHONDIR=home + "/ipython", TEGULA_CACHE_DIR=home + "/cache")
        os.environ["PYTHONPATH"] = ROOT + "/python"
        done = subprocess.run([sys.executable, "-m", "tegula.kernel", "install", "--user", "--command", TEGULA, "--", "--machine", "interp"], capture_output=True, text=True)
        expect(done.returncode == 0 and "installed" in done.stdout, f"the installation: {done.stderr}")
        notebooks()
        dialogue()
    print("ok")


if __name__ == "__main__":
    main()
