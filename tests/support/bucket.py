"""A bucket on this machine: an emulator of Google Cloud Storage, for our code, gcsfs and orbax."""

import io
from collections.abc import Iterator
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from pod import free_port


@dataclass(frozen=True)
class Bucket:
    url: str
    variables: dict[str, str]
    """What a process needs in its environment to find it."""


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    """gs://bucket, in the memory of this process."""
    pytest.importorskip("gcsfs")
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    _with_generations(pytest.importorskip("gcp_storage_emulator.handlers.objects"))
    port = free_port()
    server = emulator.create_server("127.0.0.1", port, in_memory=True, default_bucket="bucket")
    address = f"http://127.0.0.1:{port}"
    with redirect_stderr(io.StringIO()):  # it reports clients that hang up
        server.start()
        yield Bucket(
            "gs://bucket",
            {
                "STORAGE_EMULATOR_HOST": address,  # gcsfs
                "TENSORSTORE_GCS_HTTP_URL": address,  # orbax's arrays
                "NO_GCE_CHECK": "true",
                "GCE_METADATA_TIMEOUT": "1",
            },
        )
        server.stop()


def _with_generations(objects: Any) -> None:
    """The real service names the version of what it sends; tensorstore insists on that."""
    original = objects.download

    def download(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
        original(request, response, storage, *rest, **more)
        place = request.params["bucket_name"], request.params["object_id"]
        with suppress(*storage_errors()):
            response["x-goog-generation"] = storage.get_file_obj(*place)["generation"]

    objects.download = download


def storage_errors() -> tuple[type[Exception], ...]:
    from gcp_storage_emulator.exceptions import NotFound

    return (NotFound,)
