"""Fetches vocabularies with published tokenizations (19 vocabulary-only GGUF files of llama.cpp) into .cache/vocabularies.

They come inside the source distribution of a package, 77 MB, so only the slow tests want them, and no test fetches.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "llama-cpp-python==0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
INSIDE = "/vendor/llama.cpp/models/ggml-vocab-"
TARGET = Path(__file__).resolve().parents[3] / ".cache" / "vocabularies"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
        subprocess.run([*pip, "--dest", folder, PACKAGE], check=True)
        (archive,) = Path(folder).glob("*.tar.gz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            sys.exit(f"{archive.name} has SHA-256 {found}, expected {SHA256}")
        TARGET.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile() and INSIDE in member.name:
                    data = tar.extractfile(member)
                    assert data is not None
                    (TARGET / Path(member.name).name).write_bytes(data.read())
    print(f"{len(list(TARGET.iterdir()))} files in {TARGET}")


if __name__ == "__main__":
    main()
