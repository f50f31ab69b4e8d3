"""What the hook imports imports much that is never used there: that is put off until something of it is asked for."""

import sys
from types import ModuleType


class Late(ModuleType):
    """Stands in for a module, which is loaded when something of it is asked for that is not ``given``."""

    def __init__(self, name: str, **given: object) -> None:
        super().__init__(name)
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        __import__(self.__name__)
        return getattr(sys.modules[self.__name__], name)


def put_off(name: str, **given: object) -> None:
    """Have a module loaded late, unless it has been loaded already."""
    sys.modules.setdefault(name, Late(name, **given))


def put_off_unused() -> None:
    """Before msgspec and orjson are imported: what only other programs than the hook have them use."""
    put_off("inspect")  # dataclasses, for a docstring
    for name in ("textwrap", "msgspec.inspect", "msgspec.toml", "msgspec.yaml"):
        put_off(name)  # msgspec
    if sys.platform == "linux":
        put_off("platform", system=lambda: "Linux")  # uuid, for its name
    sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]  # msgspec makes do with typing
