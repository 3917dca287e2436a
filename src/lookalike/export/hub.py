"""Uploading a run's model to the Hugging Face hub: the timm folder and its model card, in one commit."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, ModelCard, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from lookalike.errors import ArgumentError, FileError, first_line
from lookalike.export.checked import export_checked
from lookalike.export.model_card import hub_license, model_card
from lookalike.export.source import images_to_check
from lookalike.models.checkpoint import load_model
from lookalike.models.pretrained import hub_is_offline
from lookalike.utils.io import write_text
from lookalike.utils.progress import Progress

LOG_IN = "log in as somebody who may write there with: hf auth login (or set HF_TOKEN)"
SERVER_FAILS = 500
"""Status codes of HTTP from here on are no fault of whoever asks."""


def push_to_hub(
    run: Path,
    name: str,
    *,
    images: str | None = None,
    options: Mapping[str, Any] | None = None,
    license_name: str | None = None,
    private: bool = True,
    progress: Progress | None = None,
) -> str:
    """Exports, checks on images, uploads, and returns the repository's address.

    What the hub would refuse is found before anything is computed.

    Args:
        name: OWNER/NAME; a new repository is made.
        images, options: to check the export on, and how they are read; see `images_to_check`.
        license_name: the hub's identifier of a license; None: that of the pretrained weights.
        private: whether only its owner sees a new repository.

    Raises:
        ArgumentError: the name is not that of a repository, or timm cannot express the model.
        FileError: the hub is out of reach, or refuses.
    """
    _check_name(name)
    model, _ = load_model(run)
    api = HfApi(library_name="lookalike")
    _check_account(api, name)
    views = model.config.views
    model.set_views(1)

    if license_name is None and hub_license(model) == "other":
        (progress or Progress()).warn(
            f"the license of '{name}' will be 'other', since that of its pretrained weights is "
            f"'{model.config.weights_license}'; name one with --license, such as apache-2.0"
        )

    def card(agreement: str) -> str:
        return model_card(run, name, model, agreement=agreement, views=views, license_name=license_name)

    with _hub_errors(name):
        ModelCard(card("")).validate()
    table = images_to_check(run, images, **(options or {}))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model"
        described = f"image embeddings by lookalike: {name}"
        agreement = export_checked("timm", model, target, table, description=described)
        write_text(target / "README.md", card(str(agreement)))
        with _hub_errors(name):
            address = str(api.create_repo(name, private=private, exist_ok=True))
            api.upload_folder(
                repo_id=name, folder_path=target, commit_message="Model and card of a lookalike run"
            )
    return address


def _check_name(name: str) -> None:
    if hub_is_offline():
        raise FileError(
            "HF_HUB_OFFLINE is set, so nothing can be uploaded; unset it, or use: lookalike export --timm"
        )
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ArgumentError(f"'{name}' is not the name of a repository: {first_line(error)}") from error
    if "/" not in name:
        raise ArgumentError(
            f"'{name}' has no owner; give OWNER/NAME, where OWNER is your account on the hub or an organization"
        )


def _check_account(api: HfApi, name: str) -> None:
    """Refuses whoever may not write to the repository, as far as the hub says so."""
    if get_token() is None:
        raise FileError(f"nobody is logged in to the hub; {LOG_IN}")
    with _hub_errors(name):
        account: dict[str, Any] = api.whoami()
    if account.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise FileError(f"your token of the hub may only read; {LOG_IN}")
    owners = [
        account["name"],
        *(one["name"] for one in account.get("orgs", ()) if one.get("roleInOrg") != "read"),
    ]
    owner = name.partition("/")[0]
    if owner.casefold() not in map(str.casefold, owners):
        raise FileError(
            f"'{account['name']}', who is logged in to the hub, may not write to repositories of '{owner}', only of "
            f"{', '.join(owners)}; {LOG_IN}"
        )


@contextlib.contextmanager
def _hub_errors(name: str) -> Iterator[None]:
    """Turns what the hub's client raises into one line."""
    try:
        yield
    except HfHubHTTPError as error:
        advice = LOG_IN if error.response.status_code < SERVER_FAILS else "try again later"
        raise FileError(f"the hub refuses the upload of '{name}': {_said(error)}; {advice}") from error
    except ValueError as error:
        raise FileError(f"the hub refuses the model card of '{name}': {_said(error)}") from error
    except Exception as error:  # whatever the client's HTTP library raises without a connection
        raise FileError(f"the hub is out of reach: {_said(error)}") from error


def _said(error: Exception) -> str:
    """An error's first line, without what would stand before a semicolon."""
    return first_line(error).strip().rstrip(".")
