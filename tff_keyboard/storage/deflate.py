"""Raw DEFLATE (RFC 1951) with Huffman codes and run lengths only, without a search for repetitions.

The quantised steps of an update and byte planes have no longer repetitions. The search would find
none and take ten times as long.
"""

import zlib

from tff_keyboard.storage.errors import DataError


def deflated(data: bytes) -> bytes:
    """Returns `data` as one complete stream."""
    stream = zlib.compressobj(6, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    return stream.compress(data) + stream.flush()


def inflated(data: bytes, size: int) -> bytes:
    """Returns the `size` bytes of one complete stream.

    Never allocates more than `size` + 1 bytes for the result, so a small stream cannot fill the
    memory.

    Raises:
      DataError: If the stream is damaged, or has another length.
    """
    stream = zlib.decompressobj(-15)
    try:
        content = stream.decompress(data, size + 1)
    except zlib.error:
        raise DataError("Compressed bytes are damaged: they cannot be inflated.") from None
    if len(content) != size or not stream.eof or stream.unused_data:
        raise DataError(f"Compressed bytes are damaged: they are not {size} when inflated.")
    return content
