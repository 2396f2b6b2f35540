#!/usr/bin/env python3
# tree_sitter.py ROOT: the tree-sitter grammar without tree-sitter's generator, which few systems have packaged: grammar.js is evaluated by node, every
# rule that it names must be defined and used, LALR tables must have no conflict that precedences leave open, and the tables, with a lexer that looks
# for what fits in each state, must parse every example and library module. Without node only the text is looked at.
import json, pathlib, re, shutil, subprocess, sys

root = pathlib.Path(sys.argv[1])
path = root / "editors/tree-sitter-tile/grammar.js"
DSL = r"""
const rule = v => v instanceof RegExp ? {t: 'pattern', v: v.source} : typeof v === 'string' ? {t: 'string', v} : v;
const list = t => (...v) => ({t, v: v.map(rule)});
const under = (t, value, v) => ({t, value, v: rule(v)});
global.seq = list('seq'); global.choice = list('choice'); global.repeat = v => under('repeat', 0, v);
global.repeat1 = v => under('repeat1', 0, v); global.optional = v => ({t: 'choice', v: [rule(v), {t: 'seq', v: []}]});
global.prec = (n, v) => under('prec', n, v); global.prec.left = (n, v) => under('left', n, v); global.prec.right = (n, v) => under('right', n, v);
global.token = v => under('token', 0, v); global.field = (n, v) => under('field', n, v); global.alias = (v, n) => under('alias', n, v);
const named = new Proxy({}, {get: (_, name) => ({t: 'symbol', v: name})});
global.grammar = g => ({name: g.name, word: g.word && g.word(named).v, extras: g.extras ? g.extras(named).map(rule) : [],
                        rules: Object.fromEntries(Object.entries(g.rules).map(([n, f]) => [n, rule(f(named))]))});
process.stdout.write(JSON.stringify(require(process.argv[1])));
"""
if not shutil.which("node"):
    named = set(re.findall(r"\$\.(\w+)", path.read_text()))
    defined = set(re.findall(r"^    (\w+): \$ =>", path.read_text(), re.M))
    print("node is not here: names alone are checked,", "none is missing" if named <= defined else f"missing: {named - defined}")
    sys.exit(bool(named - defined))
grammar = json.loads(subprocess.run(["node", "-e", DSL, str(path)], check=True, capture_output=True, text=True).stdout)
rules = grammar["rules"]
problems = []


def parts(r):
    yield r
    for inner in r["v"] if isinstance(r["v"], list) else [r["v"]] if isinstance(r["v"], dict) else []:
        yield from parts(inner)


names = [p["v"] for r in [*rules.values(), *grammar["extras"]] for p in parts(r) if p["t"] == "symbol"]
problems += [f"`{n}` is not defined" for n in sorted(set(names) - set(rules))]
problems += [f"`{n}` is never used" for n in sorted(set(rules) - set(names) - {next(iter(rules))})]
if problems:
    sys.exit("\n".join(problems))

# ---- terminals: what a token, pattern or text is; a rule that is only one of these is a terminal itself ----


def regex(r):
    if r["t"] == "pattern":
        return r["v"]
    if r["t"] == "string":
        return re.escape(r["v"])
    if r["t"] == "seq":
        return "".join(map(regex, r["v"]))
    if r["t"] == "choice":
        return "(?:" + "|".join(map(regex, r["v"])) + ")"
    if r["t"] in ("repeat", "repeat1"):
        return "(?:" + regex(r["v"]) + ")" + ("*" if r["t"] == "repeat" else "+")
    return regex(r["v"])  # token, prec


def lexical_precedence(r):
    return r["value"] if r["t"] == "prec" else lexical_precedence(r["v"]) if r["t"] == "token" else 0


terminals, tokens = {}, {}  # name: (regex, precedence, is a text, order); rules that are terminals


def terminal(r):
    name = ("'" + r["v"] + "'") if r["t"] == "string" else "/" + regex(r) + "/"
    terminals.setdefault(name, (re.compile(regex(r)), lexical_precedence(r), r["t"] == "string", len(terminals)))
    return name


for name, r in rules.items():
    if r["t"] in ("token", "pattern", "string"):
        tokens[name] = terminal(r)

# ---- productions: (name, [symbols], precedence of the whole, associativity) ----

productions, fresh = [], 0


def alternatives(r):
    """Lists of (symbol, precedence) for a rule, each with the associativity of its end."""
    global fresh
    if r["t"] in ("string", "pattern", "token"):
        return [([(terminal(r), 0)], None)]
    if r["t"] == "symbol":
        return [([(tokens.get(r["v"], r["v"]), 0)], None)]
    if r["t"] == "seq":
        out = [([], None)]
        for inner in r["v"]:
            out = [(a + b, side or other) for a, side in out for b, other in alternatives(inner)]
        return out
    if r["t"] == "choice":
        return [a for inner in r["v"] for a in alternatives(inner)]
    if r["t"] in ("repeat", "repeat1"):
        fresh += 1
        name = f"repeat {fresh}"
        for a, side in alternatives(r["v"]):
            productions.append((name, a, None))
            productions.append((name, [(name, 0)] + a, None))
        return [([(name, 0)], None)] + ([([], None)] if r["t"] == "repeat" else [])
    out = alternatives(r["v"])
    if r["t"] in ("prec", "left", "right"):
        side = None if r["t"] == "prec" else r["t"]
        out = [([(s, p or r["value"]) for s, p in a], side or own) for a, own in out]
    return out


start = next(iter(rules))
for name, r in rules.items():
    if name not in tokens:
        productions += [(name, a, side) for a, side in alternatives(r)]
empty = [p[0] for p in productions if not p[1] and p[0] != start]
problems += [f"`{n}` matches nothing" for n in empty]
productions.insert(0, ("start", [(start, 0)], None))
of = {}
for i, (name, a, side) in enumerate(productions):
    of.setdefault(name, []).append(i)
first = {n: set() for n in of}
nullable = {n for n in of if any(not productions[i][1] for i in of[n])}
changed = True
while changed:
    changed = False
    for name, a, side in productions:
        for s, p in a:
            more = first[s] if s in of else {s}
            changed |= not more <= first[name]
            first[name] |= more
            if s not in nullable:
                break

# ---- LALR(1): states by their kernels, lookaheads merged until nothing changes ----


def closure(kernel):
    items = {k: set(v) for k, v in kernel.items()}
    work = list(items)
    while work:
        i, dot = work.pop()
        a = productions[i][1]
        if dot == len(a) or a[dot][0] not in of:
            continue
        after, ahead = a[dot + 1:], set()
        for s, p in after:
            ahead |= first[s] if s in of else {s}
            if s not in nullable:
                break
        else:
            ahead |= items[(i, dot)]
        for j in of[a[dot][0]]:
            if not ahead <= items.get((j, 0), set()) or (j, 0) not in items:
                items.setdefault((j, 0), set()).update(ahead)
                work.append((j, 0))
    return items


states, numbers, moves = [{(0, 0): {"end"}}], {frozenset([(0, 0)]): 0}, [{}]
work = [0]
while work:
    state = work.pop()
    after = {}
    for (i, dot), ahead in closure(states[state]).items():
        a = productions[i][1]
        if dot < len(a):
            after.setdefault(a[dot][0], {}).setdefault((i, dot + 1), set()).update(ahead)
    for symbol, kernel in after.items():
        to = numbers.setdefault(frozenset(kernel), len(states))
        if to == len(states):
            states.append({}), moves.append({})
        moves[state][symbol] = to
        grew = any(not v <= states[to].get(k, set()) for k, v in kernel.items()) or not states[to]
        for k, v in kernel.items():
            states[to].setdefault(k, set()).update(v)
        if grew:
            work.append(to)

actions = []
for number, kernel in enumerate(states):
    items, row = closure(kernel), {}
    for s, to in moves[number].items():
        if s not in of:
            row[s] = ("shift", to)
    for (i, dot), ahead in items.items():
        name, a, side = productions[i]
        if dot < len(a):
            continue
        own = a[-1][1] if a else 0
        for s in ahead:
            if s not in row:
                row[s] = ("reduce", i)
                continue
            if row[s][0] == "reduce":
                other = productions[row[s][1]][1]
                than = other[-1][1] if other else 0
                if own == than:
                    problems.append(f"`{name}` and `{productions[row[s][1]][0]}` may both end before {s}")
                if own > than:
                    row[s] = ("reduce", i)
                continue
            shifts = [productions[j][1][k - 1][1] for (j, k) in items if 0 < k < len(productions[j][1])
                      and s in (first[productions[j][1][k][0]] if productions[j][1][k][0] in of else {productions[j][1][k][0]})]
            than = max(shifts, default=0)
            if own > than or (own == than and side == "left"):
                row[s] = ("reduce", i)
            elif own == than and side != "right":
                problems.append(f"`{name}` may end before {s}, or go on")
    actions.append(row)
if problems:
    sys.exit("\n".join(sorted(set(problems))[:40]))

# ---- parsing ----

extras = [tokens[e["v"]] if e["t"] == "symbol" else terminal(e) for e in grammar["extras"]]
word = tokens[grammar["word"]]
keywords = {n for n, (r, p, is_text, order) in terminals.items() if is_text and terminals[word][0].fullmatch(n[1:-1])}


lexers, of_state = {}, {}  # by what may stand there; by state


def lexer_of(state):
    """Keywords, patterns, texts and the longest of these that may stand there: one object for states that take the same."""
    if state not in of_state:
        valid = frozenset(actions[state]) | frozenset(extras)
        names = valid - {"end"} - keywords | ({word} if valid & keywords else set())
        texts = {n[1:-1]: n for n in names if terminals[n][2]}
        patterns = [(n, *terminals[n]) for n in names if not terminals[n][2]]
        of_state[state] = lexers.setdefault(valid, (valid & keywords, patterns, texts, max(map(len, texts), default=0)))
    return of_state[state]


def token(lexer, text, at):
    """The name and the end of what stands there; (None, at): nothing that fits."""
    known, patterns, texts, longest = lexer
    best = ((-9,), None, at)
    for length in range(longest, 0, -1):
        if len(text) >= at + length and (name := texts.get(text[at:at + length])):
            best = ((0, at + length, True, 0), name, at + length)
            break
    for name, r, precedence, is_text, order in patterns:
        m = r.match(text, at)
        if m and m.end() > at:
            best = max(best, ((precedence, m.end(), is_text, -order), name, m.end()))
    name, end = best[1:]
    return (f"'{text[at:end]}'" if name == word and f"'{text[at:end]}'" in known else name), end


def parse(text):
    """The line that a node of errors would begin in, or None."""
    stack, at, lexer = [0], 0, None
    while True:
        if lexer is not lexer_of(stack[-1]):
            lexer = lexer_of(stack[-1])
            name, end = token(lexer, text, at) if at < len(text) else ("end", at)
        if name in extras:
            at, lexer = end, None
            continue
        action = actions[stack[-1]].get(name)
        if action is None:
            return text.count("\n", 0, at) + 1
        if action[0] == "shift":
            stack.append(action[1])
            at, lexer = end, None
            continue
        made, a, side = productions[action[1]]
        del stack[len(stack) - len(a):]
        if made == "start":
            return None
        stack.append(moves[stack[-1]][made])


files = [*sorted((root / "examples").glob("*.tile")), *sorted((root / "stdlib").glob("*.tile")), *sorted((root / "tests/run").glob("*.tile"))[::40]]
for file in files:
    if (line := parse(file.read_text(encoding="utf-8"))) is not None:
        problems.append(f"{file}:{line}: the grammar takes nothing that stands here")
for text in ("let test = type.layout(bench) + x.fn;", "1 $ ' ` # \\ }) ]", "kernel", "\"open", "@", "@ @ f", "test", "import"):
    if parse(text) is not None:
        problems.append(f"the grammar does not take {text!r}")
print(*problems, sep="\n")
print(f"{len(productions)} productions, {len(states)} states, {len(files)} files, {len(problems)} problems")
sys.exit(bool(problems))
