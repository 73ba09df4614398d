"""The public names that the site's reference shows: module -> name -> "module.attribute"."""

import tff_keyboard as tk
import tff_keyboard_app

_APP = tff_keyboard_app.__name__
SURFACE = {f"tk.{name}": names for name, names in tk.SURFACE.items()} | {
    _APP: tk.public_names(_APP)
}
SUMMARIES = {f"tk.{name}": getattr(tk, name).__doc__ for name in tk.SURFACE} | {
    _APP: tff_keyboard_app.__doc__
}
