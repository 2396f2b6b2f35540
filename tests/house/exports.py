#!/usr/bin/env python3
# libtegula.so exports exactly the functions that the public header declares, is no larger than it may be, and loads where its host has glibc 2.34.
# exports.py LIBRARY HEADER MEGABYTES
import os, platform, re, subprocess, sys, tempfile

library, header, limit = sys.argv[1:4]
lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout.splitlines()
exported = {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] != "A"}
with open(header, encoding="utf-8") as text:
    declared = set(re.findall(r"^TEGULA_API[^(]*?\b(tegula_\w+)\(", text.read(), re.M))
soname = re.search(r"SONAME.*\[(.*)\]", subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout)
problems = [f"exported but not in the header: {name}" for name in sorted(exported - declared)]
problems += [f"in the header but not exported: {name}" for name in sorted(declared - exported)]
if not soname or not re.fullmatch(r"libtegula\.so\.\d+", soname.group(1)):
    problems.append(f"SONAME is {soname.group(1) if soname else 'missing'}")
if len(declared) < 10:
    problems.append(f"only {len(declared)} functions found in {header}")
if len(declared) > 50:
    problems.append(f"{len(declared)} functions in the header; 50 is the limit")
def version(text):
    return tuple(int(part) for part in text.split("."))


# What a build on a newer system asks for is that system's.
if version(platform.libc_ver()[1] or "0") <= (2, 36):
    wanted = subprocess.run(["objdump", "-T", library], check=True, capture_output=True, text=True).stdout
    for name, most in (("GLIBC", "2.34"), ("GLIBCXX", "3.4.30")):
        newer = {found for found in re.findall(rf"\({name}_([0-9.]+)\)", wanted) if version(found) > version(most)}
        problems += [f"asks for {name}_{found}; {most} is the newest allowed" for found in sorted(newer)]
with tempfile.TemporaryDirectory() as folder:
    stripped = os.path.join(folder, "stripped")
    subprocess.run(["strip", "-o", stripped, library], check=True)
    size = os.path.getsize(stripped) / 1e6
if size > float(limit):
    problems.append(f"{size:.1f} MB when stripped, {limit} is the limit")
print("\n".join(problems) or f"{len(exported)} functions exported, {size:.1f} MB")
sys.exit(bool(problems))
