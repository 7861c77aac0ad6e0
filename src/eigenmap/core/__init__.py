"""Core utilities that every other package may use: errors, arguments, files, folders, redaction."""
