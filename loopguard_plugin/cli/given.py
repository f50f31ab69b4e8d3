"""The settings that a command is given with ``--config``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..settings import Settings


def settings_of(config: str | None) -> Settings | None:
    """Those of the file, or all defaults without one; None where it cannot be used.

    stderr is told why, and of keys that look like ours where nothing reads them: a guard would start all the same.
    """
    from ..errors import SettingsError
    from ..settings import Settings

    if config is None:
        return Settings()
    from ..config_file import load_settings

    try:
        settings = load_settings(config)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return None
    if settings.unread:
        print(SettingsError(settings.unread, config), file=sys.stderr)
    return settings
