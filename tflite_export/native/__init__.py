"""An export as a keyboard in C++17, without any other library."""
