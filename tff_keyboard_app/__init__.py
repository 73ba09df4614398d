"""A keyboard on an exported model: strip, corrections, page, personalisation, word lists."""
