"""A repository of the hub as a path in the Hugging Face cache: what is there completely is used, the rest is downloaded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import constants, get_cached_repo_tree, snapshot_download
from huggingface_hub.errors import CachedRepoTreeNotFoundError, HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.utils import disable_progress_bars, validate_repo_id

from fewbit.source.choose import Choice, choose
from fewbit.source.download import download
from fewbit.source.errors import SourceError, explained
from fewbit.source.name import HubName


def locate(hub: HubName, offline: bool, progress: Callable[[int, int], None]) -> Path:
    """The GGUF file or the folder. The network is asked only for what the cache does not hold."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # what it warns of is told by `explained`
    disable_progress_bars()
    cache = Path(constants.HF_HUB_CACHE).expanduser()
    try:
        validate_repo_id(hub.repo)
        listed = _listed(hub)
        if listed is not None and (found := _cached(hub, choose(hub, listed))):
            return found
        if offline or constants.is_offline_mode():
            return _offline(hub, cache)
        try:
            return download(hub, cache, progress)
        except Exception as error:
            # a cache that an older tool filled has no listing, so the hub was to say whether it is complete
            if listed is None and _unreachable(error) and (found := _unlisted(hub)):
                return found
            raise
    except Exception as error:
        raise explained(error, hub, cache) from None


def _listed(hub: HubName) -> list[str] | None:
    """All paths of the repository, as the cache remembers them."""
    try:
        return [file.path for file in get_cached_repo_tree(hub.repo, revision=hub.revision or None)]
    except CachedRepoTreeNotFoundError:
        return None


def _cached(hub: HubName, choice: Choice) -> Path | None:
    try:
        folder = snapshot_download(
            hub.repo, revision=hub.revision or None, allow_patterns=choice.patterns, local_files_only=True
        )
    except LocalEntryNotFoundError:
        return None
    return Path(folder) / choice.opened


def _unlisted(hub: HubName) -> Path | None:
    """What lies in a snapshot without a listing, where there are weights in it."""
    try:
        folder = Path(snapshot_download(hub.repo, revision=hub.revision or None, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    if not any(name.endswith((".safetensors", ".gguf")) for name in names):
        return None  # another program wanted the config alone
    return folder / choose(hub, names).opened


def _offline(hub: HubName, cache: Path) -> Path:
    found = _unlisted(hub) if _listed(hub) is None else None
    if found is None:
        raise SourceError(
            f"{hub} is not complete in the cache {cache}, and offline nothing is downloaded; leave out --offline and "
            "HF_HUB_OFFLINE once, or give the path of a model"
        )
    return found


def _unreachable(error: Exception) -> bool:
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code >= 500
    return not isinstance(error, SourceError)
