"""The commands of the lab."""

from tff_keyboard.command_line.commands import Command

COMMANDS = (
    Command(
        "Train",
        "study",
        "tff_keyboard_lab.commands.study",
        "train several configs with several seeds, and compare them to a control",
    ),
    Command(
        "Train",
        "attack",
        "tff_keyboard_lab.commands.attack",
        "train an aggregator with and without attackers, and compare",
    ),
    Command(
        "Privacy",
        "audit",
        "tff_keyboard_lab.commands.audit",
        "measure how well a model remembers phrases planted in its text",
    ),
    Command(
        "Privacy",
        "audit-tail",
        "tff_keyboard_lab.commands.audit_tail",
        "estimate how much a model's texts reveal about one client",
    ),
)
