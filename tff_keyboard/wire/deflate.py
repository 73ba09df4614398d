"""Raw DEFLATE (RFC 1951) of bytes whose only pattern is how often each comes, and runs of one.

That is what steps of a delta and planes of bytes are. Looking for longer repetitions finds none and
takes ten times as long.
"""

import zlib

from tff_keyboard.storage.errors import DataError


def deflated(data: bytes) -> bytes:
    """One whole stream."""
    stream = zlib.compressobj(6, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    return stream.compress(data) + stream.flush()


def inflated(data: bytes, size: int) -> bytes:
    """The `size` bytes of one whole stream; never takes memory for more than one beyond.

    Raises:
      DataError: The stream is damaged, or has another length.
    """
    stream = zlib.decompressobj(-15)
    try:
        found = stream.decompress(data, size + 1)
    except zlib.error:
        raise DataError("Compressed bytes are damaged: they cannot be inflated.") from None
    if len(found) != size or not stream.eof or stream.unused_data:
        raise DataError(f"Compressed bytes are damaged: they are not {size} when inflated.")
    return found
