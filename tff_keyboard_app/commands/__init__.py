"""The commands of the keyboard."""

from tff_keyboard.command_line.commands import Command

COMMANDS = (
    Command(
        "Phone",
        "word-list",
        "tff_keyboard_app.commands.word_list",
        "write a word list for HeliBoard and other AOSP keyboards",
    ),
    Command(
        "Phone",
        "spelling",
        "tff_keyboard_app.commands.spelling",
        "count how a keyboard handles misspelled words",
    ),
    Command(
        "Phone",
        "play",
        "tff_keyboard_app.commands.play",
        "type on an exported model in the browser or the terminal",
    ),
    Command(
        "Phone",
        "dictionary",
        "tff_keyboard_app.commands.dictionary",
        "write your words as a file, from other keyboards or from learned words",
    ),
    Command(
        "Phone",
        "personalise",
        "tff_keyboard_app.commands.personalise",
        "fine-tune an exported model on the messages of one client, or of many",
    ),
    Command(
        "Phone",
        "events",
        "tff_keyboard_app.commands.events",
        "compute click-through rate and impression recall from keyboard logs",
    ),
)
