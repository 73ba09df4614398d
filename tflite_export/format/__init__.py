"""The files of an export: manifest, vocabulary, associated files, signatures."""
