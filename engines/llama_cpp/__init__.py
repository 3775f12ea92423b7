"""llama.cpp's server: its memory and its rules."""
