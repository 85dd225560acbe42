"""Makes PyPI's torch importable without its CUDA wheels: `cpu_torch.py SITE_PACKAGES`.

PyPI's x86-64 torch is linked against CUDA libraries that weigh gigabytes and that a CPU run never enters. This builds a
stand-in for each that is absent, holding the symbols torch's own libraries ask of it. The stand-ins report that there
is no device, so torch keeps to the processor. Needs gcc and readelf.
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

NO_DEVICE = "long {name}(void) {{ return 100; }}"
TEXT = 'const char *{name}(void) {{ return "no CUDA here"; }}'
SUCCESS = "int {name}(void) {{ return 0; }}"
# transformers asks before every forward whether the current stream is being captured; the answer has to be no.
NOT_CAPTURING = "int {name}(void *stream, int *status) {{ *status = 0; return 0; }}"
FIRST_DEVICE = "int {name}(int *device) {{ *device = 0; return 0; }}"
ANSWERS = [
    (r".*(ErrorString|ErrorName|StatusString|StatusName)", TEXT),
    (r"cudaStreamIsCapturing", NOT_CAPTURING),
    (r"cudaGetDevice", FIRST_DEVICE),
    (r"cudaSetDevice|cudaGetLastError|cudaPeekAtLastError|cudaThreadExchangeStreamCaptureMode", SUCCESS),
    (r".*", NO_DEVICE),
]


def readelf(option, library):
    return subprocess.run(["readelf", "-W", option, library], check=True, capture_output=True, text=True).stdout


def absent_libraries(libraries):
    """Libraries that torch's own are linked against and that neither torch nor the system has."""
    needed = set()
    for library in libraries:
        needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", library)))
    system = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    known = {library.name for library in libraries} | set(re.findall(r"^\s*(\S+) \(", system, re.MULTILINE))
    return sorted(name for name in needed - known if not name.startswith("ld-linux"))


def wanted_symbols(libraries, absent):
    """`{library: {version: names}}` for the absent ones. Names without a version may come from any of them."""
    owner, undefined, defined = {}, set(), set()
    for library in libraries:
        for file, versions in re.findall(r"File: (\S+) +Cnt.*\n((?:.*Name: .*\n)*)", readelf("-V", library)):
            owner.update((version, file) for version in re.findall(r"Name: (\S+)", versions))
        for line in readelf("--dyn-syms", library).splitlines():
            fields = line.split()
            if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
                continue
            name, _, version = fields[7].partition("@")
            if fields[6] != "UND":
                defined.add(name)
            elif fields[4] == "GLOBAL":
                undefined.add((name, version.lstrip("@")))
    wanted = {library: defaultdict(set) for library in absent}
    for name, version in undefined:
        library = owner.get(version, absent[0])
        if library in wanted and name not in defined:
            wanted[library][version].add(name)
    return wanted


def build(library, versions, folder):
    source, script = [], []
    for version, names in sorted(versions.items()):
        for name in sorted(names):
            source.append(next(answer for pattern, answer in ANSWERS if re.fullmatch(pattern, name)).format(name=name))
        if version:
            script.append(f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};")
    with tempfile.TemporaryDirectory() as scratch:
        code, map_file = Path(scratch, "stand_in.c"), Path(scratch, "versions.map")
        code.write_text("\n".join(source) + "\n")
        map_file.write_text("\n".join(script) + "\n")
        command = ["gcc", "-shared", "-fPIC", "-fno-builtin", "-nostdlib", f"-Wl,-soname,{library}", code]
        if script:
            command.append(f"-Wl,--version-script={map_file}")
        subprocess.run([*command, "-o", folder / library], check=True)


def main(site_packages):
    torch = Path(site_packages, "torch")
    libraries = [*sorted((torch / "lib").glob("*.so*")), *sorted(torch.glob("_C*.so"))]
    absent = absent_libraries(libraries)
    if not absent:
        print("torch has all its libraries")
        return
    for library, versions in wanted_symbols(libraries, absent).items():
        build(library, versions, torch / "lib")
    print(f"stood in for {', '.join(absent)}")


if __name__ == "__main__":
    main(sys.argv[1])
