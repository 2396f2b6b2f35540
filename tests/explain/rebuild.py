#!/usr/bin/env python3
"""The text of `explain`, made of its JSON alone, and compared with what the command says byte for byte; the JSON is checked against its schema.

usage: rebuild.py TEGULA SOURCE [--all]      every kernel of the examples on one target in turn; --all: on every target
       rebuild.py --text FILE.json           prints the text
"""

import json
import pathlib
import re
import subprocess
import sys

TARGETS = ["sm_90a", "cpu", "sm_80", "sm_75", "sm_100a", "sm_89", "sm_120a", "compute_80"]
MOST_REJECTED = 5


def us(microseconds):
    return f"{microseconds:.1f} us" if microseconds < 100 else f"{microseconds:.0f} us"


def count(n, one):
    return f"{n} {one}" + ("" if n == 1 else "s")


def size(bits):
    return f"{bits} bits" if bits % 8 else count(bits // 8, "byte")


def large(n):
    return f"{n // 1024} KiB" if n >= 10240 else f"{n} bytes"


def shape(extents):
    return "[" + ", ".join(map(str, extents)) + "]"


def named(values):
    return ", ".join(f"{v['name']} = {v['value']}" for v in values)


def at(extents):
    return " at " + named(extents) if extents else ""


def quoted(name):
    return f"`{name}`"


def estimate(e):
    out = count(e["programs"], "program") + f", {e['per_sm']} per SM at a time, "
    if "instruction" in e:
        out += e["instruction"] + ", "
    if e["stages"]:
        out += f"{e['stages']} stages, "
    if not e["spread"]:
        out += "stretches one after the other, "
    if e["spills"]:
        out += "accumulators do not fit in registers, "
    return out + "bound by " + e["bound"]


def instruction(i):
    if not i["tensor_core"]:
        return i["name"] + " (no tensor core)"
    return f"{i['name']} m{i['m']}n{i['n'] or 'N'}k{i['k']}"


def operations(items):
    return ", ".join(f"{o['count']} {o['name']}" for o in items)


def per_code(f, *pipes):
    return sum(o["count"] for o in f["operations"] if not pipes or o["pipe"] in pipes) / f["codes"]


def tune(f):
    def told(c):
        return f"{us(c['estimate']['microseconds'])} ({estimate(c['estimate'])})"

    first, best = f["candidates"][0], f["candidates"][f["chosen"]]
    out = f"tune: {named(best['values'])}{at(f['extents'])}: estimated {told(best)}, the least of {len(f['candidates'])} choices"
    if f["chosen"] and "estimate" in first:
        out += f"; {named(first['values'])}: {told(first)}"
    return out


def estimated(f):
    e = f["estimate"]
    parts = sorted(e["parts"], key=lambda p: -p["microseconds"])
    alone = ", ".join(f"{p['name']} {us(p['microseconds'])}" for p in parts)
    return f"estimate{at(f['extents'])}: {us(e['microseconds'])} ({estimate(e)}); each alone: {alone}"


def recognition(f):
    if "refusal" in f:
        return "not a matrix product: " + f["refusal"]
    if "op" in f:
        return "matrix product: computed as " + f["op"]
    return f"matrix product: {f['rows']} row, {f['columns']} column and {f['batch']} batch indices"


def own_instruction(f):
    each = {0: "on tiles in every warp", 1: "element by element"}.get(f["elements"], f"{f['elements']} elements at a time")
    return f"instruction `{f['name']}`: by its text for {f['form']}, {each}"


def split(f):
    out = f"split sum: {f['parts'] or 'as many'} stretches"
    if "step" in f:
        out += f" of {f['step']} elements of K"
    if not f["parts"]:
        out += " as the launch's K has, at least one"
    out += f"; a CTA each, of which the last one to end adds the sums, {f['workspace_bytes']} bytes of workspace per stretch"
    return out if f["parts"] else out + "; launches that are quicker so run them one after the other in each program"


def product(f):
    extents = f"{f['m']} x {f['n']} x {f['k']}"
    row = f["instruction"]
    out = f"product {extents if f['batch'] == 1 else str(f['batch']) + ' times ' + extents}: {instruction(row)}"
    if f["scale_blocks"]:
        out += ", with scales of blocks of {} and {}".format(*f["scale_blocks"])
    if f["tensor_columns"]:
        out += f", its sum in {f['tensor_columns']} columns of tensor memory"
    if f["late"]:
        out += ", under way while the next trip makes its first factor"
    if "clocks" in f:
        out += f", {f['clocks']:.0f} clocks"
    plain = row["name"] == "fma"
    told = [r for r in f["rejected"] if "clocks" in r or (r["instruction"]["tensor_core"] and (r["code"] != "formats" or plain))]
    if plain and f["op"] == "dot" and not told:
        out += f": no tensor core of {f['arch']} accumulates in {f['accumulator']}"
    for r in told[:MOST_REJECTED]:
        why = ([f"{r['clocks']:.0f} clocks"] if "clocks" in r else []) + ([r["why"]] if "why" in r else [])
        out += f"; not {instruction(r['instruction'])}: {', '.join(why)}"
    return out


def access(f):
    out = f["op"] + (f" of `{f['tensor']}`" if "tensor" in f else "") + f" {shape(f['tile'])}: "
    if "boxes" in f:
        b = f["boxes"]
        return out + f"by TMA, each warp in boxes of {b['lines']} x {b['columns']} through {b['shared_bytes']} bytes of shared memory"
    if "words" in f:
        w = f["words"]
        out += f"{w['words']} words of a thread by {w['accesses']} accesses of {size(w['access_bits'])}"
    elif "elements" in f:
        e = f["elements"]
        out += f"{count(e['elements'], 'element')} ({size(e['access_bits'])}) per thread"
        out += ", words shifted into place, " if e["shifted"] else " and access, "
        out += "whole sectors" if e["whole_sectors"] else "parts of 32-byte sectors"
    else:
        out += "no dimension of the tile is contiguous in memory, single elements"
    if f["copies"]:
        out += "; some threads hold copies"
    return out + (f"; not by TMA: {f['not_tma']}" if "not_tma" in f else "")


def pointers(f):
    out = f"{f['op']} of {f['element']} {shape(f['tile'])}: each pointer is followed for itself, {f['accesses']} "
    out += f"{'access' if f['accesses'] == 1 else 'accesses'} of {size(f['access_bits'])} to global memory per thread"
    out += (" under its mask" if f["masked"] else "") + ("; some threads hold copies" if f["copies"] else "")
    return out + (f"; not as a part of a tensor: {f['why']}" if "why" in f else "")


def decoding(f):
    out = f"codes of {f['from']} become {f['to']} in {per_code(f):.2f} operations each, "
    out += f"{per_code(f, 'fma') + per_code(f, 'conversion'):.2f} of them on floats: {operations(f['recipe'])} for {f['recipe_codes']}"
    return out + (", of words that are shifted into place" if f["shifted"] else "")


def conversion(f):
    def side(verb):
        if verb not in f:
            return ""
        s = f[verb]
        banks = "no bank conflicts" if s["bank_accesses"] == 1 else f"{s['bank_accesses']} accesses to a bank"
        return f", {verb} {size(s['access_bits'])} at a time, {banks}"

    ways = {
        "to shared": f"is put into shared memory ({f.get('layout')}) for a product",
        "no zeros": "of zeros needs no place: its product overwrites tensor memory",
        "to tensor memory": "is put into tensor memory for a product",
        "from tensor memory": "is read from tensor memory into registers",
        "from shared": "is read from shared memory into registers",
        "shuffles": f"changes its layout: {f['shuffles']} shuffles per thread",
        "scratch": f"changes its layout: through {f['scratch_bytes']} bytes of scratch" + side("written") + side("read"),
        "renamed": "changes its layout: registers are renamed",
    }
    out = f"tile {shape(f['tile'])} {ways[f['way']]}"
    return out + (", in global memory: shared memory is too small" if f["global_scratch"] else "")


def copy_ahead(f):
    out = "load of " + (quoted(f["tensor"]) if "tensor" in f else "a tensor") + ": "
    if "by" not in f:
        return out + "not copied ahead, because " + f["refusal"]
    by = {"own": "each thread for itself", "TMA": "TMA", "threads": "the threads that compute"}[f["by"]]
    out += f"copied ahead by {by} through a ring of {count(f['stages'], 'stage')}"
    if f["by"] != "own":
        out += f", swizzle of {f['swizzle']} bytes"
    if f["sharers"] > 1:
        out += f", by multicast to {f['sharers']} programs of a cluster, which copy a part each"
    return out + (f", by every program of a cluster for itself: {f['unshared']}" if "unshared" in f else "")


def buffer(b):
    use = {"ring": "in a ring of ", "tile": "of a tile of "}.get(b["use"], "for ")
    out = (f"{b['stages']} x " if b["stages"] > 1 else "") + f"{b['bytes']} bytes {use}{b['of']}"
    return out + (" in global memory" if b["where"] == "workspace" else "")


def resources(f):
    out = "resources of a program: " + count(f["threads"], "thread")
    copying = f["threads"] - 32 * f["warps"]
    if copying > 0:
        out += f", of which {copying} copy"
    out += ", " + ("about " if f["registers_are"] == "estimated" else "") + count(f["registers"], "register") + " each, "
    out += large(f["shared_bytes"]) + " of shared memory" if f["shared_bytes"] else "no shared memory"
    if f["buffers"]:
        out += " (" + ", ".join(map(buffer, f["buffers"])) + ")"
    if f["tensor_columns"]:
        out += f", {f['tensor_columns']} columns of tensor memory"
    return out + f"; {count(f['per_sm'], 'program')} per SM at a time, limited by {f['limit']}"


def hint(f):
    said = f"counts as {f['instead']} on " if "instead" in f else "has no effect on "
    return f"hint `{f['hint']}` {said}{f['arch']}: {f['why']}"


def decode(operations):
    return f"{operations:.2f} operations to decode a code" if operations else "codes are decoded one by one"


def stream(f):
    out = f"narrow `{f['tensor']}`: {large(f['bytes_in_flight'])} on their way to an SM, where {large(f['bytes_needed'])} hide memory's latency; "
    out += f"alone, memory takes {us(f['memory_us'])}, loading and decoding {us(f['decode_us'])} of issue slots ({decode(f['operations'])}), "
    return out + f"tensor cores {us(f['tensor_us'])}; estimated {us(f['estimated_us'])}, bound by {f['bound']}"


def better_layout(f):
    def cost(c):
        accesses = f"{c['accesses']} {'access' if c['accesses'] == 1 else 'accesses'}"
        return (f"{count(c['words'], 'word')} of a thread by {accesses}, " if c["words"] else "copies, ") + decode(c["operations"])

    out = f"`{f['tensor']}` in the layout `{f['layout']}` takes {cost(f['now'])}; in `{f['better']}`, {cost(f['then'])}: "
    return out + f"declare the tensor `@ {f['better']}` and pack it so (`tegula pack --layout {f['better']}`)"


def cpu_code(f):
    lanes = f["vector_bytes"] // 4
    out = f"code for {f['cpu']}: vectors of {f['vector_bytes']} bytes, as {f['reason']}; {lanes} lanes per step of an inner loop, of 32 bits"
    if "narrowest" not in f:
        return out
    out += f" whatever the elements, here `{f['narrowest']}`" + (f" to `{f['widest']}`" if "widest" in f else "")
    return out + (", which takes two registers" if f["two_registers"] else "")


def cooperative(f):
    out = "cooperative: all programs run at the same time, no more than there is room for at once"
    if f["meetings"]:
        out += "; they meet in one place" if f["meetings"] == 1 else f"; they meet in {f['meetings']} places"
        out += ", and whether they come there depends on memory, so that ends of programs are counted" if f["watched"] else ""
    return out


def cpu_programs(f):
    scratch = f"; a thread has {large(f['scratch_bytes'])} of scratch memory"
    if f["single"]:
        return "the grid has one program, which runs on the calling thread" + scratch
    threads = "threads of the host's executor"
    if f["threads"] == "pool":
        threads = f"the calling thread and {f['most_of_pool']} of the pool" if f["most_of_pool"] else "the threads of the pool"
        threads += ", each pinned to a core" if f["pinned"] else ""
    grid = f" ({' x '.join(f['grid'])})" if f["grid"] else ""
    if f["threads"] == "own":
        return f"programs of the grid{grid} get a thread each, which is made for the launch{scratch}"
    many = f"as many as there are programs and at most `threads` of the launch (all cores by default, {f['cores']} here)"
    return f"programs of the grid{grid} run on {threads}, {many}{scratch}"


def cpu_streams(f):
    parts = ["read ahead: " + ", ".join(map(quoted, f["read"]))] if f["read"] else []
    parts += ["written past the caches: " + ", ".join(map(quoted, f["written"]))] if f["written"] else []
    return "tensors larger than the last-level caches are streamed; " + "; ".join(parts)


def cpu_operation(f):
    stored = ", ".join(f"{s['type']} is stored ({large(s['bytes'])})" + (f", {s['why']}" if "why" in s else "") for s in f["stored"])
    out = f"{f['op']}: " + (stored or ("one loop nest" if f["nest"] else "fused into another's loops"))
    if f["fused"]:
        out += "; fused into its loops: " + ", ".join(f["fused"])
    if "order" in f:
        out += "; " + f["order"]
    if "pointers" in f:
        out += "; pointers: " + f["pointers"]
    p = f.get("product")
    if not p:
        return out
    if p["transposed"]:
        out += "; computed as the transposed product, as there are few columns"
    out += "; " + p["way"]
    if p["kept_rows"]:
        out += "; rows that no store keeps are left out"
    if p["few_kept"]:
        out += f", up to {p['few_kept']} kept ones are multiplied as few rows are"
    return out + "\n    why: " + p["why"]


TEXTS = {
    "tune": tune,
    "estimate": estimated,
    "no products": lambda f: "no products",
    "recognition": recognition,
    "instruction": own_instruction,
    "split": split,
    "persistent": lambda f: "persistent: as many CTAs as the device holds at once, each running programs one after the other",
    "cooperative": cooperative,
    "product": product,
    "access": access,
    "pointers": pointers,
    "decoding": decoding,
    "conversion": conversion,
    "local tile": lambda f: f"`{f['type']}`: {f['elements']} elements ({f['bytes']} bytes) of each thread do not fit in registers and lie in local memory",
    "copy ahead": copy_ahead,
    "hint": hint,
    "resources": resources,
    "stream": stream,
    "better layout": better_layout,
    "cpu code": cpu_code,
    "cpu programs": cpu_programs,
    "cpu streams": cpu_streams,
    "cpu operation": cpu_operation,
}


def text(explanation):
    lines = []
    for note in explanation["notes"]:
        span = note.get("span")
        place = f"{span['file']}:{span['line']}:{span['column']}: " if span else ""
        lines.append(place + TEXTS[note["kind"]](note) + "\n")
    return "".join(lines)


def problems(value, schema, root, at="$"):
    """What of a JSON schema these files use: $ref, type, const, enum, properties, required, additionalProperties, items, oneOf."""
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, at)
    if "oneOf" in schema:
        found = [problems(value, s, root, at) for s in schema["oneOf"]]
        return [] if sum(not f for f in found) == 1 else min(found, key=len) or [f"{at}: several kinds"]
    if "const" in schema and value != schema["const"]:
        return [f"{at}: {value!r} is not {schema['const']!r}"] * 100
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    kind = schema.get("type")
    if kind and (not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{at}: {value!r} is no {kind}"]
    out = []
    if kind == "object":
        known = schema.get("properties", {})
        out += [f"{at}: no `{name}`" for name in schema.get("required", []) if name not in value]
        if schema.get("additionalProperties") is False:
            out += [f"{at}: `{name}` is not described" for name in value if name not in known]
        for name, inner in known.items():
            out += problems(value[name], inner, root, f"{at}.{name}") if name in value else []
    if kind == "array":
        for i, item in enumerate(value):
            out += problems(item, schema.get("items", {}), root, f"{at}[{i}]")
    return out


def dump(tegula, file, kernel, stage, settings):
    """What a dump prints; generic parameters that need a value get 64. None: the target cannot show the kernel."""
    command = [tegula, "dump", file, kernel, "--emit", stage] + [a for s in settings for a in ("-s", s)]
    done = subprocess.run(command, capture_output=True)
    missing = re.findall(r"`(\w+)`: this generic parameter has no default", done.stderr.decode())
    if missing and not settings:
        settings += [f"{name}=64" for name in missing]
        return dump(tegula, file, kernel, stage, settings)
    return None if done.returncode else done.stdout


def main(tegula, source, everything):
    schema = json.loads(pathlib.Path(source, "share/tegula/schema/explanation.json").read_text())
    compared, kinds, failed = 0, set(), False
    number = 0
    for file in sorted(pathlib.Path(source, "examples").glob("*.tile")):
        for kernel in re.findall(r"^kernel (\w+)", file.read_text(), re.M):
            number += 1
            for target in TARGETS if everything else [TARGETS[number % len(TARGETS)]]:
                settings = ["M=1", "N=16384", "K=16384"] if "w4a16_few" in kernel else []
                said = dump(tegula, file, kernel, f"explain@{target}", settings)
                data = dump(tegula, file, kernel, f"explain-json@{target}", settings)
                if said is None or data is None:
                    if (said is None) != (data is None):
                        print(f"{file} {kernel} {target}: only one of text and JSON")
                        failed = True
                    continue
                explanation = json.loads(data)
                wrong = problems(explanation, schema, schema)
                for problem in wrong[:5]:
                    print(f"{file.name} {kernel} {target}: {problem}")
                rebuilt = text(explanation) if not wrong else ""
                if not wrong and rebuilt.encode() != said:
                    for a, b in zip(said.decode().splitlines(), rebuilt.splitlines()):
                        if a != b:
                            print(f"{file.name} {kernel} {target}:\n  said:    {a}\n  rebuilt: {b}")
                            break
                    else:
                        print(f"{file.name} {kernel} {target}: another number of lines")
                failed = failed or bool(wrong) or rebuilt.encode() != said
                kinds |= {n["kind"] for n in explanation["notes"]}
                compared += 1
    print(f"{compared} explanations rebuilt from their JSON; kinds of notes seen: {', '.join(sorted(kinds))}")
    return 1 if failed or compared < 20 else 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--text":
        sys.stdout.write(text(json.loads(pathlib.Path(sys.argv[2]).read_text())))
        sys.exit(0)
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2], "--all" in sys.argv))
