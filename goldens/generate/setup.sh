#!/usr/bin/env bash
# Makes the virtual environment that the scripts of this folder run in: setup.sh VENV
# Needs python3.11, gcc, readelf and PyPI; about 1.3 GB of disk. Nothing runs on a GPU.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: setup.sh VENV" >&2
    exit 2
fi
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$1"

python3.11 -m venv "$venv"
if ! "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$here/requirements.txt"; then
    echo "setup.sh: the packages could not be installed; is PyPI reachable?" >&2
    exit 1
fi
site_packages="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
"$venv/bin/python" "$here/cpu_torch.py" "$site_packages"
"$venv/bin/python" - <<'PYTHON'
import diffusers, torch, transformers
from diffusers import MiniMaxMusic3Vocoder

assert not torch.cuda.is_available()
assert float(torch.nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2)).sum()) == 6.0
print("ready: torch", torch.__version__, "diffusers", diffusers.__version__, "transformers", transformers.__version__)
PYTHON
