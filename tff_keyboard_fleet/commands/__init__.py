"""The commands of rounds with devices."""

from tff_keyboard.command_line.commands import Command

COMMANDS = (
    Command(
        "Devices",
        "serve-rounds",
        "tff_keyboard_fleet.commands.serve_rounds",
        "train with devices; run again to resume",
    ),
    Command(
        "Devices",
        "compare-on-devices",
        "tff_keyboard_fleet.commands.compare_on_devices",
        "compare models on text of devices, before a rollout",
    ),
    Command(
        "Devices",
        "find-words-on-devices",
        "tff_keyboard_fleet.commands.find_words_on_devices",
        "find frequent new words on devices, without reading text",
    ),
    Command(
        "Devices",
        "fleet",
        "tff_keyboard_fleet.commands.fleet",
        "show the progress of a training with devices",
    ),
    Command(
        "Devices",
        "device",
        "tff_keyboard_fleet.commands.device",
        "take part in a server's rounds with the text typed on this device",
    ),
)
