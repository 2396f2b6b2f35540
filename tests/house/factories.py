#!/usr/bin/env python3
# Proves that what makes a value of a host statement cannot hand out null: factories.py ROOT; exits 1 and names every offending line.
# A function that gives a new HostTensor returns Made<HostTensor> (jit/engine/made.h), or a bool that must be looked at; the checker is first tried on
# lines with known offences, so that it cannot pass by seeing nothing.
import os, re, sys

POINTER = r"(?:std::shared_ptr<(?:const )?HostTensor>|std::unique_ptr<(?:const )?HostTensor>|HostTensor\s*\*)"
FUNCTION = re.compile(r"^\s*(?:\[\[\w+\]\]\s*|static\s+|inline\s+|virtual\s+)*(?:const\s+)?" + POINTER + r"\s+[\w:]+\s*\(|->\s*" + POINTER + r"|std::function<\s*" + POINTER)
MADE = re.compile(r"\bMade\b")
FOLDERS = ("jit/engine", "jit/api")


def offences(lines):
    return [number for number, line in enumerate(lines, 1) if FUNCTION.search(line.split("//")[0])]


def main(root):
    known = ["std::shared_ptr<HostTensor> make(int n) {", "HostTensor* make(int n);", "auto f = [&]() -> std::shared_ptr<HostTensor> {",
             "std::function<std::shared_ptr<HostTensor>(int)> load;", "static std::unique_ptr<HostTensor> HostRunner::make();"]
    fine = ["Made<HostTensor> make(int n);", "std::shared_ptr<HostTensor> t;", "bool make(std::shared_ptr<HostTensor>& out);"]
    if len(offences(known)) != len(known) or offences(fine):
        print("the checker does not see what it looks for")
        return 1
    problems, made = [], 0
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if not name.endswith((".h", ".cpp")):
                continue
            path = os.path.join(folder, name)
            with open(os.path.join(root, path), encoding="utf-8") as text:
                lines = text.readlines()
            made += sum(bool(MADE.search(line)) for line in lines)
            problems += [f"{path}:{n}: a tensor that may be null; return Made<HostTensor>" for n in offences(lines)]
    print("\n".join(problems + [f"{made} lines with Made, {len(problems)} with pointers from factories"]))
    return 1 if problems or made < 5 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
