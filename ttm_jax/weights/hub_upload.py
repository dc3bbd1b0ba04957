"""Upload a model folder to the Hugging Face hub."""

import os
import re
from pathlib import Path

from ttm_jax.errors import InputError

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def check_repository(name: str) -> None:
    """Refuse what cannot be a name on the hub before anything is written."""
    if not _REPOSITORY.fullmatch(name) or len(name) > 96 or ".." in name or "--" in name:
        raise InputError(f"--push {name}: expected USER/NAME, as on the Hugging Face hub")


def push_folder(folder: Path, repository: str, *, private: bool = False) -> str:
    """Create the repository if needed and upload the files of `folder`; returns its address.

    The token comes from HF_TOKEN or `hf auth login`; it is never written anywhere.
    """
    from huggingface_hub import HfApi, errors

    check_repository(repository)
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    other: tuple[type[Exception], ...] = (*errors.HfHubHTTPError.__bases__, ValueError)
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            commit_message="Model adapted by Test-Time Matching",
        )
    except errors.LocalTokenNotFoundError:
        raise InputError(
            f"{repository}: no token for the Hugging Face hub; set HF_TOKEN or run `hf auth login` "
            f"({folder} was written and can be uploaded later)"
        ) from None
    except other as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{repository} cannot be uploaded: {reason[:300]} ({folder} was written; check "
            "HF_TOKEN and the network, then upload it with `hf upload`)"
        ) from error
    return str(address)
