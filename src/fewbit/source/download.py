"""Downloads what was chosen of a repository into the Hugging Face cache, and takes up again what an earlier run left.

huggingface_hub throws a file away when its download ends early. So large files are fetched here, by its own function for
one response, into `blobs/<sha256>.fewbit.incomplete`, and become blobs once their hash is right; it then finds them there,
fetches the small ones and links all into the snapshot.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.hf_api import RepoFile

from fewbit.config import format_bytes
from fewbit.source.blob import Blob, Meter
from fewbit.source.choose import choose
from fewbit.source.errors import KEPT, SourceError
from fewbit.source.name import HubName

STREAMS = 4
_SHA256 = re.compile(r"[0-9a-f]{64}")  # it becomes a file's name


def download(hub: HubName, cache: Path, progress: Callable[[int, int], None]) -> Path:
    """The GGUF file or the snapshot's folder. Raises what huggingface_hub raises, or SourceError."""
    api = HfApi()
    api.model_info(
        hub.repo, revision=hub.revision or None
    )  # says at once what is wrong; the calls below retry for 20 s
    revision = api.resolve_revision(hub.repo, revision=hub.revision or None)
    tree = api.list_repo_tree(hub.repo, recursive=True, revision=revision.resolved)
    files = {file.path: file for file in tree if isinstance(file, RepoFile)}
    choice = choose(hub, files)
    home = cache / repo_folder_name(repo_id=hub.repo, repo_type="model")
    blobs = {
        blob.sha256: blob
        for name in choice.files
        if (blob := _large(hub, files[name], revision.resolved, home))
    }
    absent = [blob for blob in blobs.values() if not blob.path.exists()]
    meter = Meter(sum(b.size for b in absent), sum(b.kept_bytes() for b in absent), progress)
    if absent:
        home.mkdir(parents=True, exist_ok=True)
        _check_room(hub, cache, meter)
        _fetch(absent, meter)
    folder = snapshot_download(hub.repo, revision=revision, allow_patterns=choice.patterns)
    return Path(folder) / choice.opened


def _large(hub: HubName, file: RepoFile, commit: str, home: Path) -> Blob | None:
    """A file kept outside git, hence with a hash. Beyond the size that plain HTTP serves, huggingface_hub has its own way."""
    if (
        file.lfs is None
        or file.size > constants.MAX_HTTP_DOWNLOAD_SIZE
        or not _SHA256.fullmatch(file.lfs.sha256)
    ):
        return None
    return Blob(hub.repo, commit, file.path, file.lfs.sha256, file.size, home)


def _check_room(hub: HubName, cache: Path, meter: Meter) -> None:
    free = shutil.disk_usage(cache).free
    if meter.total - meter.done > free:
        raise SourceError(
            f"{hub} needs {format_bytes(meter.total - meter.done)} more, but the disk under {cache} has {format_bytes(free)} "
            f"left; free space or point HF_HOME elsewhere, {KEPT}"
        )


def _fetch(blobs: list[Blob], meter: Meter) -> None:
    """The first error ends all streams; so does Ctrl-C."""
    stop = threading.Event()
    with ThreadPoolExecutor(STREAMS, "download") as pool:
        running = [pool.submit(blob.fetch, meter, stop) for blob in blobs]
        try:
            for done in as_completed(running):
                done.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
