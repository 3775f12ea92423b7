"""SGLang: its memory, its rules and its arguments."""
