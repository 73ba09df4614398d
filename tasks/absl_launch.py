"""Lets a task with absl flags be launched like the others, until it has `Options`.

Goes when evaluate, compare and communication have them.
"""

import types
from collections.abc import Sequence

from absl import flags

from tff_keyboard.storage.errors import UsageError


class AbslTask:
    """A module with `FLAGS` and `main(words)`, seen as one with `Options` and `run`."""

    def __init__(self, module: types.ModuleType):
        self.__name__, self.__doc__ = module.__name__, module.__doc__
        self.Options = self  # `parse` and `help` are all that counts
        self.run = module.main
        self._flags = module.FLAGS

    def parse(self, name: str, arguments: Sequence[str]) -> list[str]:
        """The words that are not flags; the flags keep their values."""
        for flag in self._flags:
            self._flags[flag].unparse()  # of an earlier launch in this process
        try:
            words = [_with_underscores(word, self._flags) for word in arguments]
            return self._flags([f"tff-keyboard {name}", *words])[1:]
        except flags.Error as error:
            raise UsageError(f"{error} Flags of this task: tff-keyboard {name} --help.") from None

    def help(self, name: str, description: str) -> str:
        """The description and the flags."""
        self.parse(name, ())
        defined = sorted((self._flags[flag] for flag in self._flags), key=lambda flag: flag.name)
        lines = [description.strip(), "", "Flags:"]
        for flag in defined:
            default = "" if flag.default in (None, [], "") else f" (default: {flag.default})"
            meaning = flag.help.partition(";\n")[0]  # absl adds a remark to flags that repeat
            lines.append(f"  --{flag.name}: {meaning}{default}")
        return "\n".join(lines)


def _with_underscores(word: str, known: flags.FlagValues) -> str:
    name, equals, value = word.partition("=")
    if not name.startswith("--"):
        return word
    spelled = name[2:].replace("-", "_")
    return f"--{spelled}{equals}{value}" if spelled.removeprefix("no") in known else word
