"""Uploading a run's model to the Hugging Face hub: the timm folder and its model card, in one commit."""

import tempfile
from pathlib import Path

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from lookalike.data.dataset import LabeledImages
from lookalike.errors import ArgumentError, FileError, first_line
from lookalike.export.model_card import model_card
from lookalike.export.timm import export_timm
from lookalike.export.verify import verify
from lookalike.models.checkpoint import load_model
from lookalike.models.pretrained import hub_is_offline

LOG_IN = "log in as somebody who may write there with: hf auth login (or set HF_TOKEN)"
SERVER_FAILS = 500
"""Status codes of HTTP from here on are no fault of whoever asks."""


def check_can_push(name: str) -> None:
    """Refuses an upload that cannot succeed, before anything is computed for it.

    Raises:
        ArgumentError: the name is not OWNER/NAME.
        FileError: HF_HUB_OFFLINE is set, or nobody has logged in.
    """
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
    if get_token() is None:
        raise FileError(f"nobody is logged in to the hub; {LOG_IN}")


def push_to_hub(run: Path, name: str, table: LabeledImages, *, private: bool = True) -> str:
    """Exports, checks on images of `table`, uploads, and returns the repository's address.

    Raises:
        ArgumentError: the name is not that of a repository, or timm cannot express the model.
        FileError: the hub is out of reach, or refuses.
    """
    check_can_push(name)
    model, _ = load_model(run)
    views = model.config.views
    model.set_views(1)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model"
        export_timm(model, target, description=f"image embeddings by lookalike: {name}")
        agreement = verify("timm", target, model, table)
        card = model_card(run, name, model, agreement=str(agreement), views=views)
        (target / "README.md").write_text(card, encoding="utf-8")
        try:
            api = HfApi(library_name="lookalike")
            address = str(api.create_repo(name, private=private, exist_ok=True))
            api.upload_folder(
                repo_id=name, folder_path=target, commit_message="Model and card of a lookalike run"
            )
        except HfHubHTTPError as error:
            advice = LOG_IN if error.response.status_code < SERVER_FAILS else "try again later"
            raise FileError(
                f"the hub refuses the upload of '{name}': {first_line(error).strip()}; {advice}"
            ) from error
        except Exception as error:  # whatever the client's HTTP library raises without a connection
            raise FileError(f"the hub is out of reach: {first_line(error).strip()}") from error
    return address
