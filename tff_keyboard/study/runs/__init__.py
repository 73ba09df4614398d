"""A study's runs: trained, judged, and what they cost."""
