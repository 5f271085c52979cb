"""Generators make clients of the OpenAPI document that strict compilers accept."""

import shutil
import subprocess

import pytest

TYPESCRIPT = [
    "orval --input openapi.json --output client.ts --client fetch",
    "tsc --strict --noEmit --skipLibCheck --target es2022 --lib es2022,dom client.ts",
]
PYTHON = [
    "openapi-python-client generate --path openapi.json --output-path client --meta none",
    # Not the generator's own code, which stands beside these.
    "mypy --strict --follow-imports=silent client/models client/api",
]


@pytest.mark.parametrize("commands", [TYPESCRIPT, PYTHON], ids=["typescript", "python"])
def test_generated_client_compiles(client, tmp_path, commands):
    (tmp_path / "openapi.json").write_bytes(client.get("/openapi.json").data)
    for command in commands:
        name, *arguments = command.split()
        if not (tool := shutil.which(name)):
            pytest.skip(f"{name} is not installed")
        done = subprocess.run([tool, *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
