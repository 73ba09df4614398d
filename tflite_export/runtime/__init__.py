"""The keyboard's side of an exported model: text in, suggestions out."""
