"""The commands. Installed, this folder is `tff_keyboard_tasks`, so imports in it are relative."""
