from tff_keyboard.training.own_loop import train

__all__ = ["train"]
