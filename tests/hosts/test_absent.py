"""A host that is not installed: importing its module says what to install."""

from __future__ import annotations

import importlib
import importlib.metadata

import pytest

HOSTS = {
    "claude_code": ("claude-agent-sdk", "claude-code"),
    "google_adk": ("google-adk", "google-adk"),
    "hermes": ("hermes-agent", "hermes"),
    "langchain": ("langchain", "langchain"),
    "nanobot": ("nanobot-ai", "nanobot"),
    "openai_agents": ("openai-agents", "openai-agents"),
    "pydantic_ai": ("pydantic-ai-slim", "pydantic-ai"),
    "strands": ("strands-agents", "strands"),
}


@pytest.mark.parametrize(("module", "package", "extra"), [(name, *both) for name, both in HOSTS.items()])
def test_an_absent_host_names_its_extra(module: str, package: str, extra: str) -> None:
    """The error is an ImportError about the host's package, with the extra that brings it."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        with pytest.raises(ImportError, match=rf'pip install "loopguard-plugin\[{extra}\]"') as error:
            importlib.import_module(f"loopguard_plugin.hosts.{module}")
        assert error.value.name == package
    else:
        pytest.skip(f"{package} is installed")
