"""What can go wrong between a name and its files, in one sentence each."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from fewbit.source.name import HubName
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
KEPT = "what is already downloaded is kept and taken up again"


class SourceError(FewbitError):
    """A model that is not where its name says, or cannot be fetched from there."""


def explained(error: Exception, hub: HubName, cache: Path) -> SourceError:
    """The sentence for an error of huggingface_hub, of the connection, or of the disk under the cache."""
    from httpx2 import HTTPError
    from huggingface_hub import errors

    while isinstance(error, errors.LocalEntryNotFoundError | errors.RevisionResolutionError) and isinstance(
        error.__cause__, Exception
    ):
        error = error.__cause__
    match error:
        case SourceError():
            return error
        case errors.HFValidationError():
            text = f"{hub} is no valid repository name; expected org/name in letters, digits, - _ and ."
        case errors.GatedRepoError():
            text = (
                f"{hub} is gated: its owner grants access one by one; ask for it on the repository's page, then set HF_TOKEN "
                "to a token of that account"
            )
        case errors.RevisionNotFoundError():
            text = f"{hub}: the repository has no revision {hub.revision or 'main'!r}; give a branch, tag or commit that it has"
        case errors.RepositoryNotFoundError():
            text = f"{hub} is not on the hub, or is private; check the spelling, or set HF_TOKEN to a token that may read it"
        case errors.RemoteEntryNotFoundError():
            text = f"{hub} lost a file while it was downloaded; start again"
        case errors.HfHubHTTPError() if error.response.status_code in (401, 403):
            text = (
                f"{hub}: the hub refuses access (status {error.response.status_code}); set HF_TOKEN to a valid token that may "
                "read the repository"
            )
        case errors.HfHubHTTPError():
            text = f"{hub}: the hub answers with status {error.response.status_code}; try again later, {KEPT}"
        case errors.FileMetadataError():
            text = f"{hub}: HF_ENDPOINT does not answer as a Hugging Face hub does; correct or unset it"
        case OSError() if error.errno in FULL:
            text = f"{hub}: the disk under {cache} is full; free space or point HF_HOME elsewhere, {KEPT}"
        case OSError() if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            text = f"{hub}: {error.filename or cache} cannot be written ({error.strerror}); point HF_HOME to a folder of yours"
        case (
            HTTPError()
            | errors.RevisionResolutionError()
            | errors.LocalEntryNotFoundError()
            | ConnectionError()
        ):
            text = (
                f"{hub} is not complete in the cache {cache}, and the hub cannot be reached ({_first_line(error)}); check network "
                f"and proxy, {KEPT}"
            )
        case _:
            text = f"{hub} cannot be downloaded ({type(error).__name__}: {_first_line(error)}); {KEPT}"
    return SourceError(text)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
